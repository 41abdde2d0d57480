// Server and worker of the shared data directory as parts of their own, to be killed apart.
import { binary, dataDir, url } from "./helmr.ts";
import { Part } from "./part.ts";

const environment = {
  ...process.env,
  HELMR_DATA_DIR: dataDir,
  HELMR_CONTROL_URL: `unix:${dataDir}/run/server.sock`,
  HELMR_WORKER_BOOTSTRAP_TOKEN_FILE: `${dataDir}/keys/bootstrap`,
  HELMR_CHECKPOINT_ENCRYPTION_KEY_FILE: `${dataDir}/keys/checkpoint`,
};

const part = (...args: string[]): Part => new Part(binary, args, environment, `${dataDir}/up.log`);

export const server = part("server", "--data-dir", dataDir, "--addr", new URL(url).host);
export const worker = part("worker");
