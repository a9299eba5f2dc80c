import type { Worker } from 'node:worker_threads'
import { threadBeside } from '../files.js'
import type { Lookup } from '../names/lookups.js'
import { type OutboundError, type OutboundRequest, type OutboundResponse, outboundError } from './answer.js'
import type { Outbound } from './outbound.js'
import type { OutboundOrder, OutboundReply, OutboundThreadData } from './thread-protocol.js'

type Answer = OutboundResponse | OutboundError

/**
 * A guarded client in a separate thread: handshakes, encryption and long bodies do not delay the calling thread. The thread starts with the
 * first request, and again after a crash; pending requests then fail with `BROKEN`.
 */
export class ThreadedOutbound implements Outbound {
  readonly #data: OutboundThreadData
  readonly #looked: (lookup: Lookup) => void
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  #worker: Worker | undefined
  #number = 0
  #closed = false

  /** `looked` is called with each name lookup of the thread. Must not throw. */
  constructor(data: OutboundThreadData, looked: (lookup: Lookup) => void = () => undefined) {
    this.#data = data
    this.#looked = looked
  }

  async request({ signal, ...request }: OutboundRequest): Promise<Answer> {
    if (this.#closed || signal?.aborted === true) return outboundError('ABORTED', 0)
    const worker = this.#running()
    const number = ++this.#number
    const cancel = () => worker.postMessage({ number } satisfies OutboundOrder)
    signal?.addEventListener('abort', cancel)
    try {
      return await new Promise<Answer>((resolve) => {
        this.#waiting.set(number, resolve)
        // A process that only waits for this response must stay alive.
        worker.ref()
        worker.postMessage({ number, request } satisfies OutboundOrder)
      })
    } finally {
      signal?.removeEventListener('abort', cancel)
    }
  }

  close(): void {
    this.#closed = true
    void this.#worker?.terminate()
    this.#lose('ABORTED')
  }

  #running(): Worker {
    if (this.#worker !== undefined) return this.#worker
    const worker = threadBeside(import.meta.url, 'thread', this.#data)
    const gone = () => {
      if (this.#worker === worker) this.#lose('BROKEN')
    }
    worker.on('message', (reply: OutboundReply) => {
      if ('looked' in reply) this.#looked(reply.looked)
      else this.#settle(reply.number, reply.answer)
    })
    worker.on('error', gone)
    worker.on('exit', gone)
    worker.unref()
    this.#worker = worker
    return worker
  }

  #settle(number: number, answer: Answer): void {
    const settle = this.#waiting.get(number)
    this.#waiting.delete(number)
    if (this.#waiting.size === 0) this.#worker?.unref()
    if (answer.ok)
      settle?.({ ...answer, body: Buffer.from(answer.body.buffer, answer.body.byteOffset, answer.body.length) })
    else settle?.(answer)
  }

  #lose(code: 'ABORTED' | 'BROKEN'): void {
    this.#worker = undefined
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const settle of waiting) settle(outboundError(code, 0))
  }
}
