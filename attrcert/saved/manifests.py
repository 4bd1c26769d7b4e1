"""The manifest beside a CSV: what run its rows are of, and how far that is."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrcert.errors import ResumeError, UsageError
from attrcert.saved.files import read_text, readable
from attrcert.saved.schemas import SCHEMA, SETTINGS, differing, is_header, of_today, too_new

RUNNING, REPLACING, COMPLETE = "running", "replacing", "complete"  # states that are looked for
# what it says of its own CSV
OWN = ("schema", "settings", "command", "identity", "state", "rows", "status", "rows_sha256")
SIZES = ("batch_size", "chunk")  # that a resumed run goes on with
UNREADABLE = (OSError, ValueError, RecursionError)


def head(command: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """What every manifest of a run begins with."""
    told = json.loads(json.dumps(identity, default=str))
    return {"schema": SCHEMA, "settings": SETTINGS, "command": command, "identity": told}


def manifest_of(path: Path) -> Path:
    """Where the manifest of a CSV lies."""
    return path.with_name(path.name + ".json")


def read_manifest(path: Path) -> dict[str, Any] | None:
    """What lies beside the CSV, or None where nothing does."""
    beside = manifest_of(path)
    try:
        manifest = _loaded(beside)
    except UNREADABLE as error:
        raise UsageError(f"the manifest {beside} cannot be read: {error}", hint="delete it, or restore it") from error
    if manifest is None:
        return None
    if not _is_manifest(manifest):
        raise UsageError(f"{beside} is not a manifest that attrcert wrote", hint="delete it, or restore it")
    if told := too_new(manifest):
        raise UsageError(f"{path} {told}", hint="use that version, or a later one")
    return of_today(manifest)


def manifest_of_run(path: Path, ours: Mapping[str, Any]) -> dict[str, Any] | None:
    """The manifest of a CSV that a run with the head `ours` goes on with; None where there is none."""
    try:
        manifest = read_manifest(path)
    except UsageError as error:
        raise ResumeError(f"cannot resume: {error.message}", hint="restore it, or use --overwrite") from error
    if manifest is None:
        return None
    told = sorted(differing(ours["identity"], manifest["identity"]).items())
    if manifest.get("command") != ours["command"]:
        told.append(("command", (ours["command"], manifest.get("command"))))
    if not _is_size(manifest.get("schema")):
        told.append(("schema", (ours["schema"], manifest.get("schema"))))
    if told:
        listed = "; ".join(f"{key} was {theirs!r} and is {now!r}" for key, (now, theirs) in told)
        raise ResumeError(f"{path} belongs to another run: {listed}", hint="choose another --out, or --overwrite")
    for key in SIZES:
        unset = key == "chunk" and manifest.get(key) is None
        if key in manifest and not (unset or _is_size(manifest[key])):
            raise ResumeError(
                f"cannot resume: {key} in the manifest of {path} must be a whole number, got {manifest[key]!r}",
                hint="restore it, or use --overwrite",
            )
    return manifest


def is_altered(manifest: Mapping[str, Any] | None, content: bytes) -> bool:
    """Whether a CSV is not what its run wrote. Version 0.1 did not say what that was, and a run that goes on cannot."""
    told, state = ((manifest or {}).get(key) for key in ("rows_sha256", "state"))
    return told is not None and state == COMPLETE and told != hashlib.sha256(content).hexdigest()


def check_replaceable(path: Path) -> None:
    """--overwrite replaces a CSV and a manifest that attrcert wrote, and nothing else. An empty file is nobody's loss."""
    beside = manifest_of(path)
    try:
        manifest = _loaded(beside)
        foreign = manifest is not None and not _is_manifest(manifest)
    except UNREADABLE:  # torn or damaged: whose it was, the CSV tells
        foreign = not path.exists()
    if foreign:
        raise UsageError(f"{beside} is not a manifest that attrcert wrote, and is not overwritten", hint="move it away")
    if path.exists() and not _has_our_header(path):
        raise UsageError(f"{path} is not a file that attrcert wrote, and is not overwritten", hint="move it away")


def _has_our_header(path: Path) -> bool:
    with readable(path), path.open("rb") as stream:
        begins = stream.read(2**16)
    return not begins or is_header(header_in(begins))


def header_in(content: bytes) -> list[str]:
    """The names that a CSV begins with, if it does with names."""
    return content.partition(b"\n")[0].decode("utf-8", "replace").split(",")


def _loaded(beside: Path) -> Any:
    if not beside.exists():
        return None
    return json.loads(read_text(beside))


def _is_manifest(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("identity"), dict)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
