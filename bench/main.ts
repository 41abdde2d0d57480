// Runs every figure, or those named: node bench/main.ts BUILD_DIR [FIGURE...].
import { join } from "node:path";
import { apiRunsCreate } from "./figures/api_runs_create.ts";
import { consoleFigures } from "./figures/console.ts";
import { deployCached } from "./figures/deploy_cached.ts";
import { dispatch } from "./figures/dispatch.ts";
import { execRtt, ptyEcho } from "./figures/exec.ts";
import { ext4Write } from "./figures/ext4_write.ts";
import { authOverhead } from "./figures/auth_overhead.ts";
import { fileReadApi } from "./figures/file_read_api.ts";
import { httpHealth } from "./figures/http_health.ts";
import { layerApply } from "./figures/layer_apply.ts";
import { layerMake } from "./figures/layer_make.ts";
import { logThroughput } from "./figures/log_throughput.ts";
import { parkAndResume, parkedMemory } from "./figures/park.ts";
import { pull } from "./figures/pull.ts";
import { runStart, runStartCold } from "./figures/run_start.ts";
import { runThroughput } from "./figures/run_throughput.ts";
import { seal } from "./figures/seal.ts";
import { secretStart } from "./figures/secret_start.ts";
import { sseClientBytes } from "./figures/sse_client_bytes.ts";
import { appendToWaiter, sseFanout, streamAppend } from "./figures/streams.ts";
import { captureFull, captureSmall } from "./figures/versions.ts";
import { vmClonePss, vmPark, vmStart } from "./figures/vm.ts";
import { cleanUp, note } from "./host.ts";
import { remember } from "./report.ts";
import { prepare, type Stack } from "./stack.ts";

// In this order one `helmr up` serves the first nine, and servers alone six more.
const figures: Record<string, (stack: Stack) => Promise<void>> = {
  run_start: runStart,
  secret_start: secretStart,
  run_throughput: runThroughput,
  log_throughput: logThroughput,
  append_to_waiter: appendToWaiter,
  console: consoleFigures,
  exec_rtt: execRtt,
  pty_echo: ptyEcho,
  deploy_cached: deployCached,
  capture_full: captureFull,
  capture_small: captureSmall,
  run_start_cold: runStartCold,
  park: parkAndResume,
  parked_rss: parkedMemory,
  vm_start: vmStart,
  vm_park: vmPark,
  vm_clone_pss: vmClonePss,
  api_runs_create: apiRunsCreate,
  http_health: httpHealth,
  file_read_api: fileReadApi,
  auth_overhead: authOverhead,
  sse_client_bytes: sseClientBytes,
  stream_append: streamAppend,
  sse_fanout: sseFanout,
  dispatch,
  layer_make: layerMake,
  layer_apply: layerApply,
  ext4_write: ext4Write,
  pull,
  seal,
};

async function main(build: string, wanted: string[]): Promise<void> {
  const unknown = wanted.find((name) => !(name in figures));
  if (unknown) throw new Error(`no figure ${unknown}; there are ${Object.keys(figures).join(" ")}`);
  const stack = await prepare(build);
  for (const [name, measure] of Object.entries(figures)) {
    if (wanted.length && !wanted.includes(name)) continue;
    note(`measuring ${name}`);
    try {
      await measure(stack);
    } catch (error) {
      process.exitCode = 1;
      note(`failed: ${name}: ${String(error)}`);
    }
  }
  remember(join(build, "bench/figures"));
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.on(signal, () => void cleanUp().then(() => process.exit(130)));

try {
  const [build, ...wanted] = process.argv.slice(2);
  if (!build) throw new Error("usage: bench/run BUILD_DIR [FIGURE...]");
  await main(build, wanted);
} catch (error) {
  process.exitCode = 1;
  note(`failed: ${String(error)}`);
} finally {
  await cleanUp();
}
