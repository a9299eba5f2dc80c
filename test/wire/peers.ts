import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { MalformedMessage, type Message, readRequest, readResponse, statusOf, values } from './message.js'

/** What was read and lies further back than this is forgotten. */
const REMEMBERED = 50_000

/** `text` from `at` on, without keeping the memory of what was before. */
function behind(text: string, at: number): string {
  return Buffer.from(text.slice(at), 'latin1').toString('latin1')
}

/** Lets the other side of a loopback connection, which lives in this process, see what was written. */
export async function turn(times = 1): Promise<void> {
  for (let i = 0; i < times; i++) await new Promise((resolve) => setImmediate(resolve))
}

/** What one connection to the upstream did. */
export interface UpstreamConnection {
  readonly socket: Socket
  /** The bytes, one character each; from time to time those of complete requests are dropped. */
  text: string
  /** Where the next request begins. */
  read: number
  requests: number
  continued: boolean
  closed: Promise<unknown>
}

/** Bytes of the answer; undefined: the script answers (or not) by itself. */
export type Reply = (request: Message, connection: UpstreamConnection) => string | undefined

export const ok: Reply = (request) =>
  `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n${request.line.startsWith('HEAD ') ? '' : 'ok'}`

/** An upstream that records every byte, reads strictly and answers by script. */
export class Upstream {
  requests: Message[] = []
  /** What no strict reader accepts; a proxy must never send it. */
  malformed: string[] = []
  connections: UpstreamConnection[] = []
  reply: Reply = ok
  readonly #server: Server
  #waiting: (() => void)[] = []

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(t: { teardown(run: () => unknown): void }): Promise<Upstream> {
    const server = createServer({ noDelay: true, allowHalfOpen: false })
    const upstream = new Upstream(server)
    server.on('connection', (socket) => upstream.#accept(socket))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => upstream.close())
    return upstream
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get address(): { host: string; port: number } {
    return { host: '127.0.0.1', port: this.port }
  }

  /** Forgets what was recorded; the connections stay. */
  reset(): void {
    this.requests = []
    this.malformed = []
    this.reply = ok
  }

  /** Resolves when `condition` holds; looked at whenever bytes arrive or a connection opens or ends. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  close(): void {
    this.#server.close()
    for (const { socket } of this.connections) socket.destroy()
  }

  #accept(socket: Socket): void {
    const connection: UpstreamConnection = {
      socket,
      text: '',
      read: 0,
      requests: 0,
      continued: false,
      closed: new Promise((resolve) => socket.once('close', resolve))
    }
    this.connections.push(connection)
    socket.on('error', () => undefined)
    socket.on('close', () => {
      this.connections = this.connections.filter((other) => other !== connection)
      this.#wake()
    })
    socket.on('data', (chunk) => {
      connection.text += chunk.toString('latin1')
      this.#read(connection)
      this.#wake()
    })
    this.#wake()
  }

  #read(connection: UpstreamConnection): void {
    try {
      for (;;) {
        this.#continue(connection)
        const request = readRequest(connection.text, connection.read)
        if (request === undefined) return
        connection.read = request.end
        connection.requests++
        connection.continued = false
        this.requests.push(request)
        const reply = this.reply(request, connection)
        if (reply !== undefined) connection.socket.write(reply, 'latin1')
        if (connection.read > REMEMBERED) {
          connection.text = behind(connection.text, connection.read)
          connection.read = 0
        }
      }
    } catch (error) {
      if (!(error instanceof MalformedMessage)) throw error
      this.malformed.push(error.message)
      connection.socket.destroy()
    }
  }

  /** Answers 100 to a head that expects it. */
  #continue(connection: UpstreamConnection): void {
    const end = connection.text.indexOf('\r\n\r\n', connection.read)
    if (end === -1 || connection.continued) return
    if (!/\r\nexpect: *100-continue\r\n/i.test(connection.text.slice(connection.read, end + 2))) return
    connection.continued = true
    connection.socket.write('HTTP/1.1 100 Continue\r\n\r\n')
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const run of waiting) run()
  }
}

/** A client that writes raw bytes and reads answers strictly. */
export class RawClient {
  readonly socket: Socket
  /** The bytes, one character each; from time to time those of complete answers are dropped. */
  text = ''
  closed = false
  /** The system's code, when the connection broke. */
  error: string | undefined
  answers: Message[] = []
  interim: Message[] = []
  malformed: string | undefined
  /** Methods of the requests, for answers without a body. */
  methods: string[] = []
  #read = 0
  #waiting: (() => void)[] = []

  private constructor(socket: Socket) {
    this.socket = socket
    socket.setNoDelay(true)
    socket.on('data', (chunk) => {
      this.text += chunk.toString('latin1')
      this.#parse()
      this.#wake()
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.error = error.code ?? error.message
    })
    socket.on('close', () => {
      this.closed = true
      this.#parse()
      this.#wake()
    })
    // The proxy's FIN counts as the end although our side may still be open.
    socket.on('end', () => {
      this.closed = true
      this.#parse()
      this.#wake()
    })
  }

  static async open(port: number, host = '127.0.0.1'): Promise<RawClient> {
    const socket = connect({ port, host, allowHalfOpen: true })
    await once(socket, 'connect')
    return new RawClient(socket)
  }

  /** Bytes behind the last complete answer. */
  get rest(): string {
    return this.text.slice(this.#read)
  }

  write(text: string): void {
    if (!this.socket.writable) return
    this.socket.write(text, 'latin1')
  }

  /** Until `condition` holds or the deadline is over; tells which. */
  async until(condition: () => boolean, milliseconds = 2_000): Promise<boolean> {
    let late = false
    const timer = setTimeout(() => {
      late = true
      this.#wake()
    }, milliseconds)
    while (!late && !condition()) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    clearTimeout(timer)
    return condition()
  }

  /** Sends one request and answers its response; undefined when none came in time. */
  async ask(text: string, milliseconds = 2_000): Promise<Message | undefined> {
    const expected = this.answers.length + 1
    this.methods[expected - 1] = text.slice(0, text.indexOf(' '))
    this.write(text)
    await this.until(() => this.answers.length >= expected || this.closed || this.malformed !== undefined, milliseconds)
    return this.answers[expected - 1]
  }

  close(): void {
    this.socket.destroy()
  }

  #parse(): void {
    if (this.malformed !== undefined) return
    try {
      for (;;) {
        const method = this.methods[this.answers.length] ?? 'GET'
        const answer = readResponse(this.text, this.#read, method, this.closed)
        if (answer === undefined) return
        this.#read = answer.end
        if (this.#read > REMEMBERED) {
          this.text = behind(this.text, this.#read)
          this.#read = 0
        }
        const status = statusOf(answer)
        if (status < 200 && status !== 101) this.interim.push(answer)
        else this.answers.push(answer)
        if (status === 101) return
      }
    } catch (error) {
      if (!(error instanceof MalformedMessage)) throw error
      this.malformed = error.message
    }
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const run of waiting) run()
  }
}

/** One request over a connection of its own. */
export async function ask(port: number, text: string, milliseconds?: number): Promise<Message | undefined> {
  const client = await RawClient.open(port)
  const answer = await client.ask(text, milliseconds)
  client.close()
  return answer
}

/** The value of a field of a message, when it stands there once. */
export function field(message: Message | undefined, name: string): string | undefined {
  const found = message === undefined ? [] : values(message.headers, name)
  return found.length === 1 ? found[0] : undefined
}
