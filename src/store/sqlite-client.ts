import type { Worker } from 'node:worker_threads'
import { threadBeside } from '../lib/files.js'
import { errorOf } from './sqlite-failure.js'
import type {
  SqliteCommand,
  SqliteCopyData,
  SqliteExecutor,
  SqliteOpening,
  SqliteReply,
  SqliteRequest,
  SqliteResult,
  SqliteThreadData
} from './sqlite-protocol.js'
import { StoreError } from './store-error.js'

interface Waiting {
  resolve(result: SqliteResult): void
  reject(error: StoreError): void
}

async function copyBeside(from: string, to: string): Promise<void> {
  const worker = threadBeside(import.meta.url, 'sqlite-copy-thread', { from, to } satisfies SqliteCopyData)
  const done = await new Promise<SqliteOpening>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  if (!done.opened) throw errorOf(to, done.failure)
}

/** The main thread's end of the store thread. */
export class SqliteClient implements SqliteExecutor {
  readonly #worker: Worker
  readonly #waiting = new Map<number, Waiting>()
  readonly #name: string
  readonly #exited: Promise<void>
  readonly #failed: (error: unknown) => void
  #number = 0
  #gone: StoreError | undefined

  private constructor(name: string, worker: Worker, failed: (error: unknown) => void) {
    this.#name = name
    this.#worker = worker
    this.#failed = failed
    this.#exited = new Promise((resolve) => worker.once('exit', () => resolve()))
    worker.on('message', (reply: SqliteReply) => this.#settle(reply))
    worker.on('error', (error) =>
      this.#lose(new StoreError('STORE_UNAVAILABLE', `${name}: ${error.message}`, { trouble: 'unreachable' }))
    )
    worker.on('exit', () => this.#lose(new StoreError('STORE_CLOSED', `${name} is closed`)))
  }

  /**
   * Starts the thread and opens the file. Fails with `STORE_LOCKED`, or with what keeps the file from being opened. `failed`
   * hears of each statement that fails later.
   */
  static async open(path: string, failed: (error: unknown) => void = () => undefined): Promise<SqliteClient> {
    const workerData: SqliteThreadData = { path }
    const worker = threadBeside(import.meta.url, 'sqlite-thread', workerData)
    const opening = await new Promise<SqliteOpening>((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', reject)
    })
    if (!opening.opened) throw errorOf(path, opening.failure)
    return new SqliteClient(path, worker, failed)
  }

  async execute(command: SqliteCommand): Promise<SqliteResult> {
    if (this.#gone !== undefined) throw this.#gone
    const number = ++this.#number
    return await new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject })
      this.#worker.postMessage({ number, command } satisfies SqliteRequest)
    })
  }

  /** In a thread and on a connection of its own, so that reads and writes go on meanwhile. */
  async copy(to: string): Promise<void> {
    if (this.#gone !== undefined) throw this.#gone
    await copyBeside(this.#name, to)
  }

  /** Resolves once the file is closed, its lock free and the thread gone. */
  async close(): Promise<void> {
    if (this.#gone === undefined) await this.execute({ type: 'close' })
    await this.#exited
  }

  #settle(reply: SqliteReply): void {
    const waiting = this.#waiting.get(reply.number)
    this.#waiting.delete(reply.number)
    if ('result' in reply) {
      waiting?.resolve(reply.result)
      return
    }
    const error = errorOf(this.#name, reply.failure)
    this.#failed(error)
    waiting?.reject(error)
  }

  #lose(error: StoreError): void {
    this.#gone ??= error
    this.#failed(error)
    for (const waiting of this.#waiting.values()) waiting.reject(error)
    this.#waiting.clear()
  }
}
