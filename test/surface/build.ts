import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { request } from 'node:http'
import { join, resolve } from 'node:path'
import { type Ended, inheritedEnvironment } from '../cli/process.js'

/** Milliseconds after which a command or a start has failed. */
const DEADLINE = 30_000

const KEY = 'a-key-of-the-administrator'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

export interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | object
}

/** A compiled product: the folder that holds its `main.js`. */
export class Build {
  readonly #main: string

  constructor(folder: string) {
    this.#main = join(resolve(folder), 'main.js')
    if (!existsSync(this.#main)) throw new Error(`${this.#main} is missing: name the folder of a build`)
  }

  /** Runs one command to its end. */
  async run(words: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}): Promise<Ended> {
    const started = this.launch(words, cwd, env)
    await started.ended()
    return { code: started.child.exitCode, out: started.out, err: started.err }
  }

  launch(words: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}): Launched {
    const all = { ...inheritedEnvironment(), ...env }
    return new Launched(spawn(process.execPath, [this.#main, ...words], { cwd, env: all }))
  }

  /** The product on free ports. */
  async start(
    cwd: string,
    words: readonly string[] = [],
    env: Readonly<Record<string, string>> = {}
  ): Promise<Serving> {
    const places = ['--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', 'data']
    const launched = this.launch(['start', ...places, ...words], cwd, { SLUICE_API_KEY: KEY, ...env })
    return new Serving(launched, await launched.line('listening'))
  }
}

/** A process of the product, with all it has written. Every wait has a deadline. */
export class Launched {
  readonly child: ChildProcess
  out = ''
  err = ''
  readonly #closed: Promise<unknown>

  constructor(child: ChildProcess) {
    this.child = child
    this.#closed = once(child, 'close')
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.out += text
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.err += text
    })
  }

  /** Every line of the log so far, parsed. */
  get lines(): Record<string, unknown>[] {
    const whole = this.out.slice(0, this.out.lastIndexOf('\n') + 1).split('\n')
    return whole.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>)
  }

  /** The first line of the log with this message and these members, as soon as it is there. */
  async line(msg: string, members: Readonly<Record<string, unknown>> = {}): Promise<Record<string, unknown>> {
    const wanted = Object.entries({ ...members, msg })
    const find = () => this.lines.find((line) => wanted.every(([name, value]) => line[name] === value))
    for (const end = AbortSignal.timeout(DEADLINE); !end.aborted; ) {
      const found = find()
      if (found !== undefined) return found
      if (this.child.exitCode !== null) break
      await Promise.race([once(this.child.stdout as NodeJS.EventEmitter, 'data', { signal: end }), this.#closed])
    }
    throw new Error(`no line "${msg}":\n${this.out}\n${this.err}`)
  }

  async ended(): Promise<void> {
    const overdue = setTimeout(() => this.child.kill('SIGKILL'), DEADLINE)
    await this.#closed
    clearTimeout(overdue)
  }

  /** Ends it as an operator does. */
  async stop(): Promise<void> {
    this.child.kill('SIGTERM')
    await this.ended()
  }
}

/** A product that serves. */
export class Serving {
  readonly launched: Launched
  readonly traffic: string
  readonly api: string
  readonly agents: string

  constructor(launched: Launched, { traffic, api, agents = '' }: Record<string, unknown>) {
    this.launched = launched
    this.traffic = String(traffic)
    this.api = String(api)
    this.agents = String(agents)
  }

  /** Asks the API with the key of the operator. */
  call(path: string, { headers = {}, ...asked }: Asked = {}): Promise<Answer> {
    return send(this.api, path, {
      ...asked,
      headers: { authorization: `Bearer ${KEY}`, 'service-version': '2', ...headers }
    })
  }

  /** Sends traffic. */
  send(path: string, asked: Asked = {}): Promise<Answer> {
    return send(this.traffic, path, asked)
  }

  stop(): Promise<void> {
    return this.launched.stop()
  }
}

function send(base: string, path: string, { method = 'GET', headers = {}, body }: Asked): Promise<Answer> {
  const { hostname, port } = new URL(base)
  const text = typeof body === 'object' ? JSON.stringify(body) : body
  const about =
    text === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }
  return new Promise((resolve, reject) => {
    const all = { ...about, ...headers }
    const sent = request(
      { hostname, port, path, method, agent: false, headers: all, timeout: DEADLINE },
      (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (piece: string) => {
          text += piece
        })
        response.on('error', reject)
        response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
      }
    )
    sent.on('timeout', () => sent.destroy(new Error(`${method} ${path}: no answer in time`)))
    sent.on('error', reject)
    sent.end(text)
  })
}
