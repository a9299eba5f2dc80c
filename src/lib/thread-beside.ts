import { Worker } from 'node:worker_threads'

/** Starts the thread `name` that lies beside the file `from` (its `import.meta.url`), in the same language: a loader may run the sources as they are. */
export function threadBeside(from: string, name: string, workerData: unknown): Worker {
  const extension = from.slice(from.lastIndexOf('.'))
  return new Worker(new URL(`./${name}${extension}`, from), { workerData })
}
