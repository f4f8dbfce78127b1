"""The loops of docs/how-to/own-loop.md in the libraries themselves: python own_loops.py FOLDER [RANK PORT].

Runs in a folder with the datasets train and test, and prints as JSON which images each loop gave to its encoder, in
order. With a rank, it is one of two processes, whom Lightning and accelerate find through the environment.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import torch

PAGE = Path(__file__).parent.parent / "docs/how-to/own-loop.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Batches on the page are larger than the tests' datasets: these take their place.
SIZES = {"pairs, 64": "pairs, 8", "batch_size=64": "batch_size=8", "test, 128": "test, 16"}
# Saved in the middle of the second epoch, which the next trainer goes on with.
RESUMED = """
from lightning.pytorch.callbacks import ModelCheckpoint
saved = ModelCheckpoint("middle", "step", every_n_train_steps=10, save_top_k=-1)
for path, callbacks in ((None, [saved]), ("middle/step.ckpt", [])):
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, callbacks=callbacks)
    trainer.fit(Contrastive(), make_loader(pairs, 8), ckpt_path=path)
"""
PREDICTED = """
class Codes(Contrastive):
    def predict_step(self, batch, number):
        return self.encoder(normalise(batch[1], pairs.mean, pairs.std))
trainer = lightning.Trainer(accelerator="cpu", logger=False)
trainer.predict(Codes(), make_loader(test, 16, shuffle=False, workers=2))
"""


def code_of(block: str) -> str:
    for page, here in SIZES.items():
        block = block.replace(page, here)
    return block


def main(folder: Path, rank: int | None, port: str) -> dict[str, list[list[float]]]:
    """Run the page, and return for each loop what went through `normalise`: an image's sum is its name."""
    os.chdir(folder)
    common, plain, stopped_early, in_lightning, in_accelerate, in_trainer = map(
        code_of, BLOCK.findall(PAGE.read_text())
    )
    seen: list[list[float]] = []
    names: dict[str, Any] = {}
    exec(common, names)
    real = names["normalise"]

    def noted(images: torch.Tensor, *given: Any) -> torch.Tensor:
        seen.append(images.long().sum((1, 2, 3)).tolist())
        return real(images, *given)

    names["normalise"] = noted
    if rank is None:
        loops = {
            "plain": plain,
            "stopped early": stopped_early,
            "lightning": in_lightning,
            "accelerate": in_accelerate,
            "trainer": in_trainer,
        }
        loops["lightning"] += "trainer.validate(Contrastive(), make_loader(test, 16, shuffle=False))\n"
        loops |= {"resumed": RESUMED, "predicted": PREDICTED}
        loops["workers"] = in_accelerate.replace("make_loader(pairs, 8)", "make_loader(pairs, 8, workers=2)")
        loops["peeked"] = plain.replace("for epoch", "first = next(iter(loader))\nfor epoch")
    else:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NODE_RANK": "0", "LOCAL_RANK": str(rank)}
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
        ddp = 'accelerator="cpu", strategy="ddp", devices=2, '
        loops = {"lightning": in_lightning.replace('accelerator="cpu", ', ddp), "accelerate": in_accelerate}
    found = {}
    for name, code in loops.items():
        seen.clear()
        exec(code, names)
        found[name] = list(seen)
    return found


if __name__ == "__main__":
    result = main(Path(sys.argv[1]), *((int(sys.argv[2]), sys.argv[3]) if len(sys.argv) > 2 else (None, "")))
    print("\n" + json.dumps(result))
