import { defineConfig } from "@helmr/sdk";

export default defineConfig({
  project: "slack-approval",
  dirs: ["./tasks"],
});
