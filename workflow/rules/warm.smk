# Many small jobs on this machine start from one process that has imported torch already (`relearn warm`): seconds each.
from relearn.runs.devices import lock_folder

# In jobs: the server costs as much as the start of two, and the first ones do not wait for it.
WORTH_IT = 6


def start_warm(log):
    """Start the server and name it to the jobs; not for jobs on other machines, and not where the user has a say."""
    jobs = sum(job.is_shell for job in workflow.dag.needrun_jobs())
    here = workflow.executor_plugin.name == "local" and sys.platform.startswith("linux")
    if not here or jobs < WORTH_IT or os.environ.get("RELEARN_WARM"):
        return None
    try:
        socket = f"{lock_folder()}/warm-{os.getpid()}.sock"
    except (OSError, ValueError):  # no folder of the user's own: every job starts plainly
        return None
    os.environ.update(RELEARN_WARM=socket)
    return subprocess.Popen(
        ["relearn", "warm", "--socket", socket], stdout=log, stderr=log, stdin=subprocess.DEVNULL
    )


def stop_warm(server):
    """No job runs any more: end it. It would notice the end of this process, too."""
    if server is not None:
        os.environ.pop("RELEARN_WARM", None)
        server.terminate()
        server.wait()
