import { defineConfig } from "@helmr/sdk";

export default defineConfig({
  project: "cli-tooling",
  dirs: ["./tasks"],
});
