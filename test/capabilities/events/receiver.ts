import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

interface Test {
  teardown(run: () => unknown): void
}

type Answering = (request: Received, response: ServerResponse, count: number) => void

/** A real HTTP server that keeps what was posted to it. */
export class Receiver {
  readonly all: Received[] = []
  /** What it answers; 204 unless told otherwise. */
  answering: Answering = (_request, response) => response.writeHead(204).end()
  port = 0
  readonly #waiting = new Set<() => void>()
  readonly #server = createServer((request, response) => this.#take(request, response))

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook`
  }

  /** The events that were answered with success, in the order of their arrival. */
  readonly taken: {
    readonly event_id: string
    readonly event_type: string
    readonly object: Record<string, unknown>
  }[] = []

  /** Resolves when as many requests have come. */
  async requests(count: number): Promise<readonly Received[]> {
    await this.until(() => this.all.length >= count)
    return this.all
  }

  async until(holds: () => boolean): Promise<void> {
    await new Promise<void>((resolve) => {
      const look = () => {
        if (!holds()) return
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
      look()
    })
  }

  async open(port = 0): Promise<void> {
    this.#server.listen(port, '127.0.0.1')
    await once(this.#server, 'listening')
    this.port = (this.#server.address() as AddressInfo).port
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const received: Received = {
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers as Record<string, string>,
      body: Buffer.concat(parts).toString()
    }
    this.all.push(received)
    response.once('finish', () => {
      if (response.statusCode >= 200 && response.statusCode < 300 && received.body.startsWith('{'))
        this.taken.push(JSON.parse(received.body))
      if (response.statusCode >= 200 && response.statusCode < 300 && received.body.startsWith('['))
        this.taken.push(...JSON.parse(received.body))
      for (const look of [...this.#waiting]) look()
    })
    this.answering(received, response, this.all.length)
    for (const look of [...this.#waiting]) look()
  }
}

/** A receiver that closes with the test. */
export async function receiver(t: Test, answering?: Answering): Promise<Receiver> {
  const made = new Receiver()
  if (answering !== undefined) made.answering = answering
  await made.open()
  t.teardown(() => made.close())
  return made
}
