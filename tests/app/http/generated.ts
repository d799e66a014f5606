// Calls every route of the service with a client whose types openapi-typescript made; prints what it called.
import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };
const fs = (await import("node:fs" as string)) as { readFileSync(path: string): Uint8Array<ArrayBuffer> };
const [url, key, soundPath, annotationPath, archivePath, modelPath] = process.argv.slice(2) as [string, string, string, string, string, string];
const read = (path: string) => new Blob([fs.readFileSync(path)]);

const calls: [string, number][] = [];
const watch: Middleware = {
  onRequest({ request }) {
    request.headers.set("Authorization", `Bearer ${key}`);
  },
  onResponse({ request, response, schemaPath }) {
    calls.push([`${request.method} ${schemaPath}`, response.status]);
  },
};
const client = createClient<paths>({ baseUrl: url });
client.use(watch);

function form(parts: Record<string, string | Blob>): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(parts)) {
    if (typeof value === "string") data.append(name, value);
    else data.append(name, value, { audio: "a.flac", transcript: "a.txt" }[name] ?? "a.TextGrid");
  }
  return data;
}
const asForm = { bodySerializer: (body: unknown) => form(body as Record<string, string | Blob>) };
const asBytes = { bodySerializer: (body: unknown) => body as Blob, headers: { "Content-Type": "application/octet-stream" } };
const file = (path: string) => read(path) as unknown as string; // a file is a string to the types

function some<T>(found: { data?: T; error?: components["schemas"]["Problem"] }): T {
  if (found.data === undefined) throw new Error(JSON.stringify(found.error));
  return found.data;
}

const answer = some(await client.POST("/classify", { params: { query: { n_best: 2 } }, body: { audio: file(soundPath), segments: file(annotationPath) }, ...asForm }));
if (typeof answer === "string" || !("segments" in answer)) throw new Error("no segments of one tier");
const first: number | null | undefined = answer.segments[0]?.posterior;
if (!(typeof first === "number" && first > 0)) throw new Error("no posterior");
await client.POST("/align", { body: { audio: file(soundPath), transcript: new Blob(["in being comparatively modern."]) as unknown as string }, ...asForm });
await client.POST("/recognize", { body: { audio: file(soundPath) }, ...asForm });

const corpus = some(await client.POST("/corpora", { body: file(archivePath), ...asBytes }));
some(await client.GET("/corpora", { params: { query: { limit: 1 } } }));
some(await client.GET("/corpora/{id}", { params: { path: { id: corpus.id } } }));
some(await client.GET("/corpora/{id}/summary", { params: { path: { id: corpus.id } } }));
await client.GET("/corpora/{id}/sound", { params: { path: { id: corpus.id }, query: { utterance: "u" } }, parseAs: "blob" });
some(await client.GET("/presets"));
const job = some(await client.POST("/jobs", { body: { kind: "label", corpus: corpus.id } as components["schemas"]["LabelJob"] }));
const path = { id: job.id };
some(await client.GET("/jobs", { params: { query: { kind: ["label"] } } }));
some(await client.POST("/jobs/{id}/cancel", { params: { path } }));
await client.GET("/jobs/{id}/events", { params: { path }, parseAs: "text" });
const state: components["schemas"]["JobOut"]["state"] = some(await client.GET("/jobs/{id}", { params: { path } })).state;
some(await client.GET("/jobs/{id}/errors", { params: { path } }));
await client.GET("/jobs/{id}/result", { params: { path }, parseAs: "blob" });
await client.GET("/jobs/{id}/evaluation", { params: { path } });
await client.GET("/jobs/{id}/segments", { params: { path } });
await client.DELETE("/jobs/{id}", { params: { path } });

const made = some(await client.POST("/models", { params: { query: { name: "generated-ts" } }, body: file(modelPath), ...asBytes }));
some(await client.GET("/models"));
some(await client.GET("/models/{name}", { params: { path: { name: "generated-ts" } } }));
await client.GET("/models/{name}/file", { params: { path: { name: "generated-ts" } }, parseAs: "blob" });
some(await client.PUT("/aliases/{alias}", { params: { path: { alias: "ts" } }, body: { model: "generated-ts" } }));
some(await client.GET("/aliases"));
await client.DELETE("/aliases/{alias}", { params: { path: { alias: "ts" } } });
await client.DELETE("/models/{name}", { params: { path: { name: `generated-ts@${made.version}` } } });

const review = some(await client.POST("/reviews", { body: { name: "generated" } }));
const id = review.id;
some(await client.GET("/reviews"));
some(await client.GET("/reviews/{id}", { params: { path: { id } } }));
some(await client.PATCH("/reviews/{id}", { params: { path: { id } }, body: { name: "again" } }));
const kept = some(await client.POST("/reviews/{id}/files", { params: { path: { id } }, body: { audio: file(soundPath), segments: file(annotationPath) } as never, ...asForm }));
some(await client.POST("/reviews/{id}/files", { params: { path: { id } }, body: { corpus: corpus.id, place: 0, model: "default" } }));
const at = { id, number: kept.number };
some(await client.GET("/reviews/{id}/files/{number}", { params: { path: at } }));
const segments = some(await client.GET("/reviews/{id}/files/{number}/segments", { params: { path: at } }));
for (const what of ["answer", "sound", "peaks", "annotation"] as const)
  await client.GET(`/reviews/{id}/files/{number}/${what}` as "/reviews/{id}/files/{number}/sound", { params: { path: at }, parseAs: "blob" });
some(await client.POST("/reviews/{id}/operations", { params: { path: { id } }, body: { revision: 0, operations: [{ op: "accept", file: kept.number, segment: segments.segments[0]![0], reviewed: true }] } }));
some(await client.GET("/reviews/{id}/operations", { params: { path: { id } } }));
await client.GET("/reviews/{id}/annotations", { params: { path: { id } }, parseAs: "blob" });
some(await client.GET("/reviews/{id}/next", { params: { path: { id } } }));
some(await client.GET("/reviews/{id}/trainings", { params: { path: { id } } }));
const whole = some(await client.POST("/reviews/{id}/corpus", { params: { path: { id } } }));
await client.DELETE("/corpora/{id}", { params: { path: { id: whole.id } } });
await client.DELETE("/reviews/{id}", { params: { path: { id } } });
await client.DELETE("/corpora/{id}", { params: { path: { id: corpus.id } } });

const secret = some(await client.POST("/keys", { body: { name: "generated", scopes: ["read"] } }));
some(await client.GET("/keys"));
await client.DELETE("/keys/{id}", { params: { path: { id: secret.id } } });
some(await client.GET("/label-studio/health"));
for (const what of ["setup", "predict", "webhook"] as const)
  await client.POST(`/label-studio/${what}` as "/label-studio/setup", { body: { label_config: "<View></View>", tasks: [], action: "PROJECT_UPDATED" } as never });
some(await client.GET("/health/live"));
some(await client.GET("/health/ready"));
await client.GET("/metrics", { parseAs: "text" });
await client.GET("/problems", { parseAs: "text" });
await client.GET("/problems/{slug}", { params: { path: { slug: "audio" } }, parseAs: "text" });
console.log(JSON.stringify({ calls, state }));
