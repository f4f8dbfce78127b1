from ident3d.training.views.augmentations import augment as augment
from ident3d.training.views.augmentations import augment_pair as augment_pair
from ident3d.training.views.choice import Augmentation as Augmentation
from ident3d.training.views.choice import augmentation as augmentation
from ident3d.training.views.pixels import Pixels as Pixels
from ident3d.training.views.pixels import normalise as normalise
