import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/** The program, compiled together with its tests. */
const MAIN = join('dist-test', 'src', 'main.js')
/** An executable of the product that is tested in place of the program, by its absolute path. */
const { TEST_BINARY } = process.env

/** True if the Node of the started processes lets threads share listeners: the executable has its own Node. */
export const SHARES_LISTENERS = TEST_BINARY !== undefined || Number(process.versions.node.split('.')[0]) >= 24

/** Returns what runs `sluice` with `words`, as arguments of `spawn`. */
export function sluiceCommand(words: readonly string[]): readonly [command: string, words: readonly string[]] {
  if (TEST_BINARY !== undefined) return [TEST_BINARY, words]
  if (!existsSync(MAIN)) throw new Error(`${MAIN} is missing: run npm run build:test first`)
  return [process.execPath, [join(process.cwd(), MAIN), ...words]]
}

/** Where the variable TEST_WORKERS names a number of threads, they carry the traffic. */
const { TEST_WORKERS } = process.env
const WORKERS = TEST_WORKERS === undefined ? {} : { SLUICE_WORKERS: TEST_WORKERS }

export interface Test {
  teardown(run: () => Promise<void>): void
}

export interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** The environment of a user who has set nothing of the product. */
export function inheritedEnvironment(): Record<string, string> {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('SLUICE_') && name !== 'NODE_OPTIONS'
  )
  return Object.fromEntries(inherited) as Record<string, string>
}

/** One run of `sluice` as a process of its own; it is ended with the test. */
export class SluiceProcess {
  readonly child: ChildProcess
  readonly #ended: Promise<[number | null]>
  readonly #lines: { out: string[]; err: string[] } = { out: [], err: [] }
  readonly #waiting = new Set<() => void>()

  constructor(t: Test, words: readonly string[], options: { cwd: string; env?: Record<string, string> }) {
    const [command, all] = sluiceCommand(words)
    this.child = spawn(command, all, {
      cwd: options.cwd,
      env: { ...inheritedEnvironment(), ...WORKERS, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe']
    })
    this.#ended = once(this.child, 'close') as Promise<[number | null]>
    for (const name of ['out', 'err'] as const) {
      const stream = name === 'out' ? this.child.stdout : this.child.stderr
      createInterface({ input: stream as NonNullable<typeof stream> }).on('line', (line) => {
        this.#lines[name].push(line)
        for (const look of this.#waiting) look()
      })
    }
    t.teardown(async () => {
      this.child.kill('SIGKILL')
      await this.#ended
    })
  }

  async ended(): Promise<Ended> {
    const [code] = await this.#ended
    return { code, out: this.#lines.out.join('\n'), err: this.#lines.err.join('\n') }
  }

  /**
   * The first line of the log that has `message`, or the `nth`, as soon as it is there; a process that ends before is an
   * error.
   */
  async logged(message: string, nth = 1): Promise<Record<string, unknown>> {
    const found = await this.#find('out', (line) => line.includes(`"msg":"${message}`), nth)
    return JSON.parse(found) as Record<string, unknown>
  }

  /** Is there a line of standard error with `text`? */
  said(text: string): boolean {
    return this.#lines.err.some((line) => line.includes(text))
  }

  /** The next (or an earlier) line of standard error with `text`. */
  told(text: string): Promise<string> {
    return this.#find('err', (line) => line.includes(text))
  }

  async #find(name: 'out' | 'err', matches: (line: string) => boolean, nth = 1): Promise<string> {
    const found = new Promise<string>((resolve) => {
      const look = () => {
        const line = this.#lines[name].filter(matches)[nth - 1]
        if (line === undefined) return
        this.#waiting.delete(look)
        resolve(line)
      }
      this.#waiting.add(look)
      look()
    })
    const early = this.ended().then(({ code, out, err }) => {
      throw new Error(`the process ended with ${code}\n${out}\n${err}`)
    })
    return Promise.race([found, early])
  }
}
