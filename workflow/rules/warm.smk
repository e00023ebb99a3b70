# Fork many small jobs on this machine from one process that has already imported torch (`relearn warm`): saves seconds per job.
from relearn.runs.devices import lock_folder

# In jobs. The server costs as much as starting two of them, and the first jobs do not wait for it.
WORTH_IT = 6


def start_warm(log):
    """Start the server and pass its socket to the jobs, unless jobs run on other machines or RELEARN_WARM is already set."""
    jobs = sum(job.is_shell for job in workflow.dag.needrun_jobs())
    here = workflow.executor_plugin.name == "local" and sys.platform.startswith("linux")
    if not here or jobs < WORTH_IT or os.environ.get("RELEARN_WARM"):
        return None
    try:
        socket = f"{lock_folder()}/warm-{os.getpid()}.sock"
    except (OSError, ValueError):  # no folder of the user: jobs start without the server
        return None
    os.environ.update(RELEARN_WARM=socket)
    return subprocess.Popen(
        ["relearn", "warm", "--socket", socket], stdout=log, stderr=log, stdin=subprocess.DEVNULL
    )


def stop_warm(server):
    """End the server once no job runs any more. (It would also notice the end of this process.)"""
    if server is not None:
        os.environ.pop("RELEARN_WARM", None)
        server.terminate()
        server.wait()
