import { connect, type Socket } from 'node:net'

/**
 * Requests at a fixed rate over keep-alive connections, whatever the answers' speed: latency counts from the moment a
 * request was due, so that a stalled proxy does not hide its stall. A program of its own, to be pinned to a CPU.
 * `paced-client PORT RATE SECONDS CONNECTIONS [KEYS]` prints `{requests, p50, p99, errors}` (milliseconds) as JSON. With KEYS each
 * request carries one of so many values of `x-client`, one after the other.
 */
const [port, rate, seconds, connections, keys = 0] = process.argv.slice(2).map(Number) as [
  number,
  number,
  number,
  number,
  number?
]
const REQUEST = Buffer.from('GET / HTTP/1.1\r\nHost: bench.test\r\n\r\n')
const requestOf = (at: number) =>
  keys === 0 ? REQUEST : Buffer.from(`GET / HTTP/1.1\r\nHost: bench.test\r\nx-client: ${at % keys}\r\n\r\n`)
const HEAD_END = Buffer.from('\r\n\r\n')

const latencies: number[] = []
let errors = 0

class Client {
  readonly #socket: Socket
  /** When the requests under way were due, oldest first. */
  readonly #due: number[] = []
  #rest: Buffer = Buffer.alloc(0)

  constructor() {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true })
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk))
    this.#socket.on('error', () => {
      errors += this.#due.length
    })
  }

  get waiting(): number {
    return this.#due.length
  }

  send(due: number, request: Buffer): void {
    this.#due.push(due)
    this.#socket.write(request)
  }

  end(): void {
    this.#socket.destroy()
  }

  #read(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    for (;;) {
      const head = this.#rest.indexOf(HEAD_END)
      if (head === -1) return
      const length = /content-length: *(\d+)/i.exec(this.#rest.toString('latin1', 0, head))
      const end = head + 4 + Number(length?.[1] ?? 0)
      if (this.#rest.length < end) return
      this.#rest = this.#rest.subarray(end)
      const due = this.#due.shift()
      if (due !== undefined) latencies.push(performance.now() - due)
    }
  }
}

const clients = Array.from({ length: connections }, () => new Client())
const begun = performance.now()
let sent = 0
const timer = setInterval(() => {
  const due = Math.min(rate * seconds, ((performance.now() - begun) / 1_000) * rate)
  for (; sent < due; sent++) {
    const free = clients.reduce((best, client) => (client.waiting < best.waiting ? client : best))
    free.send(begun + (sent / rate) * 1_000, requestOf(sent))
  }
  if (sent >= rate * seconds) {
    clearInterval(timer)
    setTimeout(finish, 500)
  }
}, 1)

function finish(): void {
  const sorted = latencies.sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  console.log(
    JSON.stringify({ requests: sorted.length, p50: at(0.5), p99: at(0.99), errors: errors + sent - sorted.length })
  )
  for (const client of clients) client.end()
}
