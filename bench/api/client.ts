import { Agent, request } from 'node:http'
import { KEY } from './account.js'

export interface Answered {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at member by member.
  readonly json: any
  readonly text: string
}

/** A client of the management API, or of traffic, on keep-alive connections of its own. */
export class Client {
  readonly #port: number
  readonly #agent = new Agent({ keepAlive: true })

  constructor(port: number) {
    this.#port = port
  }

  ask(method: string, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answered> {
    const text = body === undefined ? undefined : JSON.stringify(body)
    return new Promise((resolve, reject) => {
      const sent = request(
        {
          host: '127.0.0.1',
          port: this.#port,
          path,
          method,
          agent: this.#agent,
          headers: {
            authorization: `Bearer ${KEY}`,
            'service-version': '2',
            ...(text === undefined
              ? {}
              : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }),
            ...headers
          }
        },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('error', reject)
          response.on('end', () => {
            const text = Buffer.concat(chunks).toString()
            const json = /^application\/json/.test(String(response.headers['content-type'])) && text !== ''
            resolve({ status: response.statusCode ?? 0, text, json: json ? JSON.parse(text) : undefined })
          })
        }
      )
      sent.on('error', reject)
      sent.end(text)
    })
  }

  /** As `ask`; another status than `expected` ends the benchmark. */
  async must(expected: number, method: string, path: string, body?: unknown): Promise<Answered> {
    const answer = await this.ask(method, path, body)
    if (answer.status !== expected) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer
  }

  close(): void {
    this.#agent.destroy()
  }
}
