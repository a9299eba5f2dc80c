import { request as requestPlain } from 'node:http'
import { request as requestSecure } from 'node:https'

export interface Served {
  readonly asked: number
  readonly failed: number
  /** Milliseconds. */
  readonly p99: number
}

/** How often it asks. Milliseconds. */
const EVERY = 20
const DEADLINE = 10_000

/** Asks for a small answer again and again, each time on a new connection, until it is stopped. */
export class HonestClient {
  readonly #host: string
  readonly #port: number
  readonly #secure: boolean
  readonly #took: number[] = []
  #failed = 0
  #stopped = false
  readonly #running: Promise<void>

  constructor(host: string, port: number, secure: boolean) {
    this.#host = host
    this.#port = port
    this.#secure = secure
    this.#running = this.#run()
  }

  async stop(): Promise<Served> {
    this.#stopped = true
    await this.#running
    const sorted = [...this.#took].sort((a, b) => a - b)
    const p99 = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? Number.POSITIVE_INFINITY
    return { asked: this.#took.length + this.#failed, failed: this.#failed, p99 }
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const begun = performance.now()
      if (await this.#served()) this.#took.push(performance.now() - begun)
      else this.#failed++
      await new Promise((resolve) => setTimeout(resolve, EVERY))
    }
  }

  #served(): Promise<boolean> {
    return new Promise((resolve) => {
      const options = {
        host: '127.0.0.1',
        port: this.#port,
        headers: { host: this.#host },
        agent: false as const,
        timeout: DEADLINE
      }
      const sent = this.#secure
        ? requestSecure({ ...options, servername: this.#host, rejectUnauthorized: false })
        : requestPlain(options)
      sent.on('error', () => resolve(false))
      sent.on('timeout', () => sent.destroy(new Error('no answer in time')))
      sent.on('response', (response) => {
        let text = ''
        response.on('error', () => resolve(false))
        response.on('data', (chunk) => {
          text += chunk
        })
        response.on('end', () => resolve(response.statusCode === 200 && text === 'served'))
      })
      sent.end()
    })
  }
}
