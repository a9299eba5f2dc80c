import type { ClientHttp2Session, ClientHttp2Stream, OutgoingHttpHeaders } from 'node:http2'

/** One answer on a stream. */
export interface StreamAnswer {
  readonly status: number
  /** Names and values by turns, without pseudo-header fields. */
  readonly fields: readonly string[]
  readonly body: string
  readonly trailers: readonly string[]
  /** Interim answers: their statuses. */
  readonly interim: readonly number[]
  /** How the stream ended; 0: well. */
  readonly code: number
}

/** One request of a test, whose body the test sends. */
export class Asked {
  readonly stream: ClientHttp2Stream
  status = 0
  fields: string[] = []
  body = ''
  trailers: string[] = []
  interim: number[] = []
  readonly closed: Promise<void>
  #waiting: (() => void)[] = []

  constructor(session: ClientHttp2Session, headers: OutgoingHttpHeaders, trailers?: OutgoingHttpHeaders) {
    this.stream = session.request(headers, { endStream: false, waitForTrailers: trailers !== undefined })
    const { stream } = this
    stream.setEncoding('latin1')
    stream.on('error', () => undefined)
    stream.on('headers', (fields) => this.interim.push(fields[':status'] ?? 0))
    stream.on('continue', () => this.interim.push(100))
    stream.on('response', (fields, _flags, raw?: string[]) => {
      this.status = fields[':status'] ?? 0
      this.fields = plain(raw ?? [])
      this.#wake()
    })
    stream.on('data', (text: string) => {
      this.body += text
      this.#wake()
    })
    stream.on('trailers', (_fields, _flags, raw?: string[]) => {
      this.trailers = raw ?? []
    })
    stream.on('wantTrailers', () => stream.sendTrailers(trailers ?? {}))
    this.closed = new Promise((resolve) => {
      stream.on('close', () => {
        this.#wake()
        resolve()
      })
    })
  }

  async until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      if (this.stream.closed) throw new Error(`closed with ${this.stream.rstCode}; got ${this.status} ${this.body}`)
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }

  /** The whole answer, however it ended. */
  async answer(): Promise<StreamAnswer> {
    await this.closed
    const { status, fields, body, trailers, interim } = this
    return { status, fields, body, trailers, interim, code: this.stream.rstCode ?? 0 }
  }

  /** Values of the fields called `name`. */
  values(name: string): string[] {
    return this.fields.filter((_, i) => i % 2 === 1 && this.fields[i - 1] === name)
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

/** A whole request. */
export function ask(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders = {},
  body?: string | Buffer,
  trailers?: OutgoingHttpHeaders
): Asked {
  const asked = new Asked(session, { ':authority': 'a.test', ...headers }, trailers)
  asked.stream.end(body ?? '')
  return asked
}

function plain(raw: readonly string[]): string[] {
  const fields: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    if (!(raw[i] as string).startsWith(':')) fields.push(raw[i] as string, raw[i + 1] as string)
  }
  return fields
}
