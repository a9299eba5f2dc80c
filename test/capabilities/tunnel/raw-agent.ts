import { once } from 'node:events'
import { connect, type TLSSocket } from 'node:tls'
import type { AgentPlace } from './agent-suite.js'

/** A frame as it came, read with arithmetic of its own. */
export interface Frame {
  readonly type: number
  readonly flags: number
  readonly id: number
  readonly body: Buffer
}

export const RESET = 0
export const DATA = 1
export const CREDIT = 2
export const GOAWAY = 3
export const FIN = 1
export const SYN = 2

export function frame(type: number, flags: number, id: number, body: Buffer | string = Buffer.alloc(0)): Buffer {
  const bytes = Buffer.from(body)
  const header = Buffer.alloc(8)
  header.writeUIntBE(bytes.length, 0, 3)
  header[3] = type * 16 + flags
  header.writeUInt32BE(id, 4)
  return Buffer.concat([header, bytes])
}

export function word(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value >>> 0)
  return bytes
}

/** An agent that sends exactly the frames of a test and keeps what comes back. */
export class RawAgent {
  readonly frames: Frame[] = []
  readonly socket: TLSSocket
  closed = false
  #bytes = Buffer.alloc(0)
  #changes: (() => void)[] = []
  #next = 3

  private constructor(socket: TLSSocket) {
    this.socket = socket
    socket.on('error', () => undefined)
    socket.on('close', () => {
      this.closed = true
      this.#changed()
    })
    socket.on('data', (chunk: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk])
      while (this.#bytes.length >= 8 && this.#bytes.length >= 8 + this.#bytes.readUIntBE(0, 3)) {
        const end = 8 + this.#bytes.readUIntBE(0, 3)
        const kind = this.#bytes[3] as number
        const body = Buffer.from(this.#bytes.subarray(8, end))
        this.frames.push({ type: kind >> 4, flags: kind & 15, id: this.#bytes.readUInt32BE(4), body })
        this.#bytes = this.#bytes.subarray(end)
      }
      this.#changed()
    })
  }

  static async connect(server: Pick<AgentPlace, 'port' | 'ca'>): Promise<RawAgent> {
    const socket = connect({ host: '127.0.0.1', port: server.port, ca: server.ca })
    await once(socket, 'secureConnect')
    return new RawAgent(socket)
  }

  /** Connected, authenticated with `token`, heartbeat stream open. */
  static async session(server: Pick<AgentPlace, 'port' | 'ca'>, token: string, extra: object = {}): Promise<RawAgent> {
    const agent = await RawAgent.connect(server)
    agent.send(frame(DATA, SYN, agent.nextId(), Buffer.concat([word(0xffff_ffff), word(7)])))
    const answer = await agent.call(0, { Version: ['3', '2'], ClientId: '', Extra: { Authtoken: token, ...extra } })
    if (answer.Error !== '') throw new Error(String(answer.Error))
    return agent
  }

  nextId(): number {
    this.#next += 2
    return this.#next - 2
  }

  send(...frames: Buffer[]): void {
    this.socket.write(Buffer.concat(frames))
  }

  /** Opens a stream of `type` with `body` and gives its id. */
  begin(type: number, body: Buffer | string = ''): number {
    const id = this.nextId()
    this.send(frame(DATA, SYN, id, Buffer.concat([word(type), Buffer.from(body)])))
    return id
  }

  /** One call; resolves when its stream has ended. */
  async call(type: number, request: object): Promise<Record<string, unknown>> {
    return this.answer(this.begin(type, JSON.stringify(request)))
  }

  async answer(id: number): Promise<Record<string, unknown>> {
    await this.until(() => this.of(id).some(({ type, flags }) => type === DATA && (flags & FIN) !== 0))
    return JSON.parse(this.text(id)) as Record<string, unknown>
  }

  of(id: number): Frame[] {
    return this.frames.filter((one) => one.id === id)
  }

  /** What came as DATA on a stream. */
  text(id: number): string {
    return String(Buffer.concat(this.of(id).map(({ type, body }) => (type === DATA ? body : Buffer.alloc(0)))))
  }

  /** Resolves when `done`; rejects when the connection closed before. */
  async until(done: () => boolean): Promise<void> {
    while (!done()) {
      if (this.closed) throw new Error('the server closed the connection')
      await new Promise<void>((resolve) => this.#changes.push(resolve))
    }
  }

  async untilClosed(): Promise<void> {
    while (!this.closed) await new Promise<void>((resolve) => this.#changes.push(resolve))
  }

  #changed(): void {
    for (const run of this.#changes.splice(0)) run()
  }
}
