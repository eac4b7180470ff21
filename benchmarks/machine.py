"""What a timing was taken on: processor, memory, software, commit, date.

Nothing here names a host, a user or a folder, so the description can be committed.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

#: Every package whose version can move a number in `results/`.
PACKAGES = (
    "hardzero",
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "jax",
    "jaxlib",
    "onnx",
    "onnxruntime",
)

#: Variables that choose the number of threads of a numerical library.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)

#: Variables that can force a library onto another kernel, cache size or waiting
#: policy. A machine's administrator may have set them for other programs; a race in
#: which a peer runs its slow kernel proves nothing, so they are removed, and recorded.
TUNING_VARIABLES = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "OPENBLAS_THREAD_TIMEOUT",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_DYNAMIC",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "OMP_WAIT_POLICY",
    "OMP_PROC_BIND",
    "OMP_DYNAMIC",
    "OMP_PLACES",
    "GOMP_SPINCOUNT",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "THP_MEM_ALLOC_ENABLE",
    "XLA_FLAGS",
)


def describe() -> dict[str, Any]:
    """Describe the machine and the software, ready for `json.dump`."""
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "cores_usable": n_usable_cores(),
        "cores_online": os.cpu_count(),
        "caches": caches(),
        "memory_gib": memory_gib(),
        "huge_pages": _first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions(),
        "load_average": [round(load, 2) for load in os.getloadavg()]
        if hasattr(os, "getloadavg")
        else None,
        "variables_removed": removed_variables(),
    }


def environment(n_threads: int) -> dict[str, str]:
    """Return the environment in which a contender starts.

    Parameters
    ----------
    n_threads : int
        Number of threads that every library is told to use, at least 1.

    Returns
    -------
    dict of str to str
        The environment of this process without `TUNING_VARIABLES`, with the thread
        variables set. It must be in place before a library is imported.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in TUNING_VARIABLES and name not in THREAD_VARIABLES
    }
    clean |= dict.fromkeys(THREAD_VARIABLES, str(n_threads))
    clean |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    clean["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of idle processes
    if n_threads == 1:
        clean["XLA_FLAGS"] = (
            "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        )
    return clean


def removed_variables() -> dict[str, str]:
    """Return the tuning variables that are set here and that no contender sees."""
    return {name: os.environ[name] for name in TUNING_VARIABLES if name in os.environ}


def versions() -> dict[str, str | None]:
    """Return the installed version of each of `PACKAGES`, None where it is absent."""
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def commit() -> str | None:
    """Return the short commit, followed by ``+changes`` if tracked files differ."""
    head = _output("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    if head is None:
        return None
    ignored = ":(exclude)benchmarks/results"  # a script that just wrote its result
    changes = _output(
        "git", "-C", str(ROOT), "status", "--porcelain", "-uno", "--", ".", ignored
    )
    return f"{head}+changes" if changes else head


def cpu_model() -> str:
    """Return the processor's name as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        fields = {}
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
        if "model name" in fields:
            family, model = fields.get("cpu family"), fields.get("model")
            return f"{fields['model name']} (family {family}, model {model})"
    if sys.platform == "darwin":
        name = _output("sysctl", "-n", "machdep.cpu.brand_string")
        if name:
            return name
    return platform.processor() or "unknown"


def n_usable_cores() -> int:
    """Return how many logical processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def caches() -> dict[str, str]:
    """Return the cache sizes that processor 0 sees, such as ``{"L1d": "48K"}``."""
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (index / name).read_text().strip() for name in ("level", "type", "size")
        )
        suffix = {"Data": "d", "Instruction": "i"}.get(kind, "")
        found[f"L{level}{suffix}"] = size
    return found


def memory_gib() -> float | None:
    """Return the physical memory in GiB, None where the system does not say."""
    try:
        n_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return round(n_bytes / 2**30, 1)


def libraries() -> list[str]:
    """Return the BLAS and OpenMP libraries loaded here and the kernels they run.

    For OpenBLAS the kernel is the processor type it chose, for PyTorch's own code
    (where MKL is linked in and answers no questions) the instruction set.
    """
    lines = []
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        lines.append("threadpoolctl is not installed: BLAS unknown")
    else:
        for pool in threadpool_info():
            words = [pool["internal_api"], pool.get("version"), _owner(pool)]
            words += [pool.get("architecture"), f"{pool['num_threads']} threads"]
            lines.append(" ".join(word for word in words if word))
    torch = sys.modules.get("torch")
    if torch is not None:
        mkl = "MKL" if torch.backends.mkl.is_available() else "no MKL"
        lines.append(
            f"torch {torch.backends.cpu.get_cpu_capability()}, {mkl}, "
            f"{torch.get_num_threads()} threads"
        )
    return sorted(lines)


def _owner(pool: dict[str, Any]) -> str | None:
    """Name the package that ships a library (NumPy and SciPy each ship OpenBLAS)."""
    folders = Path(pool["filepath"]).parts
    for folder in reversed(folders[:-1]):
        if folder.endswith((".libs", ".dylibs")):
            return f"of {folder.split('.')[0]}"
        if folder in {"torch", "onnxruntime", "jaxlib"}:
            return f"of {folder}"
    return None


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text().splitlines()[0]
    except (OSError, IndexError):
        return None


if __name__ == "__main__":
    import json

    print(json.dumps(describe(), indent=2))


def versions_in(python: str | None, packages: Sequence[str]) -> dict[str, str]:
    """Return which of some packages an interpreter has, with their versions."""
    if python is None:
        return {}
    code = (
        "import json, sys; from importlib.metadata import distributions as d; print("
        "json.dumps({x.name: x.version for x in d() if x.name in sys.argv[1:]}))"
    )
    done = subprocess.run(
        [python, "-c", code, *packages], capture_output=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found
