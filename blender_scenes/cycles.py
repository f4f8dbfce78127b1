"""Set Cycles up for one quality, size and device, with every setting whose factory default would be wrong."""

from typing import Any

from ident3d.blender_scenes.blender import bpy, current_scene
from ident3d.blender_scenes.choices import DEVICES, GPUS
from ident3d.blender_scenes.focus import Rectangle
from ident3d.blender_scenes.quality import Quality
from ident3d.errors import UserError, check_known


def configure(quality: Quality) -> None:
    """Set what a scene may set otherwise when it is built."""
    scene = current_scene()
    cycles = scene.cycles
    scene.render.film_transparent = False
    cycles.max_bounces, cycles.transparent_max_bounces = 0, 8
    cycles.blur_glossy = 2.0
    cycles.sample_clamp_direct = cycles.sample_clamp_indirect = 0.0
    cycles.pixel_filter_type, cycles.filter_width = "BLACKMAN_HARRIS", 1.5
    sample(quality)


def sample(quality: Quality) -> None:
    """Set how images of this quality are sampled and denoised, which a .blend does not say."""
    cycles = current_scene().cycles
    cycles.sampling_pattern = quality.pattern
    cycles.use_denoising = quality.denoising == "cycles"
    cycles.denoiser, cycles.denoising_use_gpu = "OPENIMAGEDENOISE", False
    cycles.denoising_input_passes, cycles.denoising_prefilter = "RGB_ALBEDO_NORMAL", "ACCURATE"
    cycles.denoising_quality = "HIGH"


def frame(size: int, *, device: str, threads: int, keep: bool) -> None:
    """Set what no scene may change: images of this size, read from memory, the same for any number of threads.

    `keep`: Cycles keeps the scene between images, so that it is not built again for each. It then misses what Blender
    is not told of, such as another custom property, the input of a modifier or the pixels of a texture.
    """
    scene = current_scene()
    render, cycles = scene.render, scene.cycles
    render.engine = "CYCLES"
    render.resolution_x = render.resolution_y = size
    render.resolution_percentage = 100
    render.threads_mode, render.threads = "FIXED", threads
    render.use_persistent_data = keep
    render.use_compositing = render.use_sequencer = False
    render.use_crop_to_border = True
    cycles.use_adaptive_sampling = cycles.use_light_tree = cycles.auto_scrambling_distance = False
    cycles.use_guiding = False
    # An image must not depend on how busy the machine is.
    cycles.time_limit = 0
    cycles.device = "CPU" if device == "cpu" else "GPU"


def choose_device(device: str, gpu_index: int) -> str:
    """Make Cycles ready for the device and return its kind: for "auto" the kind that was found."""
    check_known("device", device, DEVICES)
    context: Any = bpy.context
    preferences = context.preferences.addons["cycles"].preferences
    for kind in GPUS if device == "auto" else (device,) if device != "cpu" else ():
        found = _gpus(preferences, kind)
        if gpu_index < len(found):
            preferences.compute_device_type = kind.upper()
            for gpu in preferences.devices:
                gpu.use = gpu.id == found[gpu_index].id and gpu.type == kind.upper()
            return kind
        if device != "auto":
            raise UserError(
                f"Blender finds {len(found) or 'no'} {kind} GPU{'s' * (len(found) != 1)} here, "
                f"so there is no number {gpu_index}; take --render-device cpu or auto."
            )
    return "cpu"


def count_gpus() -> dict[str, int]:
    """Return how many GPUs of each kind Cycles finds here."""
    preferences = bpy.context.preferences.addons["cycles"].preferences  # type: ignore[union-attr]
    return {kind: len(_gpus(preferences, kind)) for kind in GPUS}


def _gpus(preferences: Any, kind: str) -> list[Any]:
    built_in = {entry[0] for entry in preferences.get_device_types(bpy.context)}
    return list(preferences.get_devices_for_type(kind.upper())) if kind.upper() in built_in else []


def aim(box: Rectangle, size: int, *, first: int, last: int, seed: int) -> None:
    """Let the next render take samples first to last - 1 of the seed's pixel sequences, in the box alone."""
    scene = current_scene()
    render, cycles = scene.render, scene.cycles
    render.use_border = box != (0, 0, size, size)
    # A quarter of a pixel keeps Blender's rounding down of size * fraction on the right side.
    render.border_min_x, render.border_max_x = (box.left + 0.25) / size, (box.right + 0.25) / size
    render.border_min_y, render.border_max_y = (size - box.bottom + 0.25) / size, (size - box.top + 0.25) / size
    cycles.seed = seed
    cycles.samples = last
    cycles.use_sample_subset = True
    cycles.sample_offset, cycles.sample_subset_length = first, last - first
    # Without it, the renderer of the image before keeps its own seed and samples.
    scene.update_tag()
