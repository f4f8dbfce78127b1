"""Parquet files as `datasets` of Hugging Face reads them: pictures as its Image, names as its ClassLabel."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, Final

from ident3d.errors import UserError
from ident3d.loaders.exports.columns import FLOAT, NAMED, Column
from ident3d.loaders.exports.parts import Block, picture_name

# Where a file says which types of `datasets` its columns have.
FEATURES_KEY: Final = b"huggingface"
# Images that are compressed and read together, and bytes of them.
GROUP_IMAGES, GROUP_BYTES = 1000, 2**25


def pyarrow() -> Any:
    """Return the package pyarrow with its part for Parquet; UserError if it is not installed."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise UserError(f"Parquet files need the package pyarrow ({error}): pip install 'ident3d[hubs]'.") from None
    return pyarrow


def schema_of(columns: Sequence[Column]) -> Any:
    """Return the types of the columns, for Arrow and, as metadata, for `datasets`."""
    arrow = pyarrow()
    fields = [arrow.field("image", arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())]))]
    fields += [arrow.field(c.name, arrow.float32() if c.kind == FLOAT else arrow.int64()) for c in columns]
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    for column in columns:
        named = {"names": list(column.names), "_type": "ClassLabel"}
        features[column.name] = named if column.kind == NAMED else {"dtype": column.kind, "_type": "Value"}
    return arrow.schema(fields, {FEATURES_KEY: json.dumps({"info": {"features": features}})})


def write_parquet(file: BinaryIO, blocks: Iterable[Block], columns: Sequence[Column], image_bytes: int) -> None:
    """Write the images into a Parquet file, group by group; an image has at most about `image_bytes`."""
    arrow, schema, waiting = pyarrow(), schema_of(columns), None
    group = max(1, min(GROUP_IMAGES, GROUP_BYTES // image_bytes))
    with arrow.parquet.ParquetWriter(file, schema) as writer:
        for block in blocks:
            pictures = [{"bytes": data, "path": picture_name(index)} for index, data in block.pictures.items()]
            arrays = [arrow.array(pictures, schema.field("image").type)]
            arrays += [arrow.array(block.table[c.name], schema.field(c.name).type) for c in columns]
            table = arrow.Table.from_arrays(arrays, schema=schema)
            waiting = table if waiting is None else arrow.concat_tables([waiting, table])
            # Groups begin at the same images, whatever the size of a shard.
            while len(waiting) >= group:
                writer.write_table(waiting.slice(0, group))
                waiting = waiting.slice(group)
        if waiting is not None and len(waiting):
            writer.write_table(waiting)
