"""From the options' texts to the specifications of a model and of data."""

from typing import TYPE_CHECKING

from attrcert.cli import options
from attrcert.vocabulary import parse_indices

if TYPE_CHECKING:
    from attrcert.loading.checkpoints import ModelSpec
    from attrcert.loading.datasets import DataSpec


def model_spec(
    checkpoint: str | None,
    arch: str | None,
    arch_arg: list[str] | None,
    output: str | None,
    mean: str | None,
    std: str | None,
    softplus_beta: str,
) -> "ModelSpec":
    from attrcert.loading import bundled
    from attrcert.loading.architectures import parse_argument
    from attrcert.loading.checkpoints import ModelSpec

    return ModelSpec(
        checkpoint=checkpoint or bundled.DEFAULT_MODEL,
        arch=arch,
        arch_args=dict(parse_argument(argument) for argument in arch_arg or ()),
        mean=options.numbers(mean, "--mean"),
        std=options.numbers(std, "--std"),
        output=output,
        beta=options.beta(softplus_beta),
    )


def data_spec(
    dataset: str | None,
    data_root: str,
    download: bool,
    resize: int | None,
    crop: int | None,
    channels: int | None,
    skip: int,
    limit: int | None,
    indices: str | None,
) -> "DataSpec":
    from attrcert.loading import bundled
    from attrcert.loading.datasets import DataSpec

    return DataSpec(
        dataset=dataset or bundled.DEFAULT_SAMPLE,
        data_root=data_root,
        download=download,
        resize=resize,
        crop=crop,
        channels=channels,
        skip=skip,
        limit=limit,
        indices=parse_indices(indices) if indices else None,
    )
