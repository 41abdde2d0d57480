import { defineConfig } from "@helmr/sdk";

export default defineConfig({
  project: "hello-world",
  dirs: ["./tasks"],
});
