import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Ask, asker } from '../api/asking.js'
import { freePort } from '../proxy/free-port.js'
import { comes, type Stage } from './fault.js'

/** The program. */
export const MAIN = join(process.cwd(), 'dist-test', 'src', 'main.js')
/** Of the management API. */
export const KEY = 'a-key-of-the-administrator'
const START = 30_000
/** How long a line of the log may take. Milliseconds. */
const TOLD = 15_000

export interface Setup {
  readonly env?: Readonly<Record<string, string>>
  /** Where standard output goes: a descriptor, a pipe that is read, or one that is not until `read` is called. */
  readonly output?: number | 'read' | 'unread'
  readonly ports?: { readonly traffic: number; readonly api: number }
  /** What runs the program, with its words; it must become it (`exec`), so that signals arrive. */
  readonly command?: readonly string[]
}

/** One process of the product, on ports that are chosen here because its log may be out of order. */
export class Product {
  readonly child: ChildProcess
  readonly ports: { readonly traffic: number; readonly api: number }
  /** Asks the management API. */
  readonly ask: Ask
  /** Asks as a client does. */
  readonly visit: Ask
  /** Lines of its log that were read. */
  readonly log: Record<string, unknown>[] = []
  /** Its data folder. */
  readonly data: string
  readonly #exit: Promise<unknown>
  #errors = ''

  private constructor(child: ChildProcess, ports: Product['ports'], data: string) {
    this.child = child
    this.data = data
    this.ports = ports
    this.#exit = once(child, 'exit')
    const ask = asker('127.0.0.1', ports.api)
    this.ask = (path, asked) => ask(path, { key: KEY, ...asked })
    this.visit = asker('127.0.0.1', ports.traffic)
  }

  /** Resolves when its API answers. It is killed with the stage. */
  static async start(stage: Stage, setup: Setup = {}): Promise<Product> {
    const at = setup.ports ?? { traffic: await freePort(), api: await freePort() }
    const product = Product.#launch(stage, at, await stage.folder(), setup)
    if ((setup.output ?? 'read') === 'read') product.read()
    const ready = () => product.ask('/healthz').then(({ status }) => status === 200)
    if (!(await comes(START, ready))) throw new Error(`the product did not start: ${JSON.stringify(product.log)}`)
    return product
  }

  static #launch(stage: Stage, at: Product['ports'], cwd: string, { env = {}, output, command = [] }: Setup): Product {
    const data = env.SLUICE_DATA ?? join(cwd, 'data')
    const [program = process.execPath, ...before] = command
    const words = command.length === 0 ? [MAIN, 'start'] : [...before, process.execPath, MAIN, 'start']
    const child = spawn(program, words, {
      cwd,
      stdio: ['ignore', typeof output === 'number' ? output : 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        SLUICE_LISTEN: `127.0.0.1:${at.traffic}`,
        SLUICE_API_LISTEN: `127.0.0.1:${at.api}`,
        SLUICE_API_KEY: KEY,
        SLUICE_DATA: data,
        SLUICE_LIMITER_BUDGET: '64MiB',
        SLUICE_ACCESS_LOG: 'off',
        ...env
      }
    })
    const product = new Product(child, at, data)
    stage.teardown(async () => {
      child.kill('SIGKILL')
      await product.#exit
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      product.#errors = `${product.#errors}${text}`.slice(-1000)
    })
    return product
  }

  /** A start that may be refused: resolves when its API answers or it has ended. */
  static async tried(stage: Stage, setup: Setup): Promise<Product> {
    const at = setup.ports ?? { traffic: await freePort(), api: await freePort() }
    const product = Product.#launch(stage, at, await stage.folder(), setup)
    product.read()
    const ready = () => product.ask('/healthz').then(({ status }) => status === 200)
    await comes(START, async () => !product.running || (await ready()))
    return product
  }

  /** How it ended and the last it said, for people; undefined while it runs. */
  get end(): string | undefined {
    if (this.running) return undefined
    const logged = this.log.map(({ msg }) => String(msg)).at(-1) ?? ''
    return `exit ${this.child.exitCode}: “${(this.#errors.trim() || logged).replaceAll('\n', ' ')}”`
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null
  }

  /** Reads its log from now on. */
  read(): void {
    const { stdout } = this.child
    if (stdout === null) return
    createInterface({ input: stdout }).on('line', (line) => {
      this.log.push(JSON.parse(line) as Record<string, unknown>)
    })
  }

  /** The first line of its log with this text; undefined when none comes. */
  async told(text: string): Promise<string | undefined> {
    const find = () => this.log.find(({ msg }) => String(msg).includes(text))
    await comes(TOLD, () => find() !== undefined)
    const line = find()
    return line && `log: “${String(line.msg)}”`
  }

  /** A value of `/metrics`. */
  async metric(name: string): Promise<number> {
    const { text } = await this.ask('/metrics')
    return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, 'm').exec(text)?.[1])
  }

  /** Asks it to end. Answers how long that took in milliseconds, and its exit code. */
  async stop(): Promise<{ code: number | null; lasted: number }> {
    const begun = performance.now()
    this.child.kill('SIGTERM')
    await this.#exit
    return { code: this.child.exitCode, lasted: performance.now() - begun }
  }

  /** Ends it as a crash does. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL')
    await this.#exit
  }
}
