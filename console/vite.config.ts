import { defineConfig } from "vite";

/** The collector that `npm run dev` reads. */
const collector = process.env["FABRICLENS_URL"] ?? "http://127.0.0.1:7470";

export default defineConfig({
  // Relative, so that the console also works below a path; the collector writes the path into <base>.
  base: "./",
  build: { target: "es2022", outDir: "dist", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: {
    port: 7480,
    // The collector refuses other origins, so the proxy speaks for its own.
    proxy: Object.fromEntries(
      ["/api", "/metrics", "/readyz"].map((path) => [
        path,
        {
          target: collector,
          changeOrigin: true,
          headers: { origin: collector },
        },
      ]),
    ),
  },
});
