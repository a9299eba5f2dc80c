import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { start } from '../../src/app/app.js'
import type { Capability } from '../../src/app/capability.js'
import { serverCapabilities } from '../../src/capabilities/registry.js'
import type { Applied } from '../../src/control/apply.js'
import { type Clock, systemClock } from '../../src/lib/clock.js'
import { loadOptions } from '../../src/options/load.js'
import type { Listener } from '../../src/options/values.js'

export const API_KEY = 'a-key-for-tests-0123456789'

const SHARED_SEAL_KEY = Buffer.alloc(32, 's').toString('base64')

export type Engine = 'http-proxy' | 'codec'

/**
 * The engines of tests that hold on each: the default one, or the one that the environment variable TEST_ENGINE names. The full tier runs such tests
 * once more on the other one (`test/run.mjs`).
 */
export const engines: readonly Engine[] = [process.env.TEST_ENGINE === 'http-proxy' ? 'http-proxy' : 'codec']

/** Threads that carry the traffic, as the environment variable TEST_WORKERS says; 0: that of the test does. */
const WORKERS = Number(process.env.TEST_WORKERS ?? '0')

export interface SluiceSetup {
  /** The product's default, or what TEST_ENGINE says, when left out. */
  readonly engine?: Engine
  readonly upstream?: { readonly host?: string; readonly port: number; readonly protocol?: 'http' | 'https' }
  /** YAML text of the traffic policy. */
  readonly policy?: string
  /** Options as environment variables write them, without `SLUICE_`: `{ TIMEOUTS_HEADERS: '1s' }`. */
  readonly options?: Readonly<Record<string, string>>
  readonly clock?: Clock
  /** @default all of them */
  readonly capabilities?: readonly Capability[]
  /** Threads that carry the traffic; the variable TEST_WORKERS says it when left out. */
  readonly threads?: number
}

/** Can this Node give sockets to other threads? */
export const THREADS_SERVE = Number(process.versions.node.split('.')[0]) >= 24

export interface RunningSluice {
  readonly port: number
  readonly apiPort: number
  readonly apiKey: string
  /** Every line of the log, parsed. */
  readonly log: Record<string, unknown>[]
  /** Resolves with the next (or an earlier) log line that `matches`. */
  line(matches: (line: Record<string, unknown>) => boolean): Promise<Record<string, unknown>>
  /** Writes another policy and applies it. */
  reload(policy: string): Promise<Applied>
  /** Listens there too, and nowhere else but on `port`. */
  listeners(wanted: readonly Listener[]): Promise<Applied>
  stop(): Promise<{ ended: number; cut: number }>
}

interface Test {
  teardown(run: () => Promise<void>): void
}

/** The whole product on free ports, in this process; it stops with the test. */
export async function startSluice(t: Test, setup: SluiceSetup = {}): Promise<RunningSluice> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-test-'))
  const policyFile = join(folder, 'policy.yaml')
  const { upstream, policy } = setup
  if (policy !== undefined) await writeFile(policyFile, policy)
  const environment: Record<string, string> = {
    SLUICE_LISTEN: '127.0.0.1:0',
    SLUICE_API_LISTEN: '127.0.0.1:0',
    SLUICE_DATA: ':memory:',
    SLUICE_TIMEOUTS_DRAIN: '1s',
    SLUICE_LIMITER_BUDGET: '64MiB'
  }
  if (upstream !== undefined) {
    environment.SLUICE_UPSTREAM = `${upstream.protocol ?? 'http'}://${upstream.host ?? '127.0.0.1'}:${upstream.port}`
  }
  if (policy !== undefined) environment.SLUICE_POLICY = policyFile
  const engine = setup.engine ?? process.env.TEST_ENGINE
  if (engine !== undefined) environment.SLUICE_ENGINE = engine
  for (const [name, value] of Object.entries(setup.options ?? {})) environment[`SLUICE_${name}`] = value
  const loaded = await loadOptions({ flags: [], environment, folder })
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems))

  const sink = new LogSink()
  const size = setup.threads ?? WORKERS
  const app = await start(
    loaded.options,
    {
      log: pino({ level: 'debug' }, sink),
      clock: setup.clock ?? systemClock,
      apiKey: API_KEY,
      ...(size === 0 ? {} : { threads: { size, lines: (text) => sink.write(text), lost: () => undefined } }),
      // Processes on one database need one key.
      sealKey: environment.SLUICE_STORE?.startsWith('postgres') === true ? SHARED_SEAL_KEY : undefined
    },
    setup.capabilities ?? (await serverCapabilities())
  )
  const { started } = app
  let stopped: Promise<{ ended: number; cut: number }> | undefined
  const stop = () => {
    stopped ??= app.stop()
    return stopped
  }
  t.teardown(async () => {
    await stop()
    await rm(folder, { recursive: true, force: true })
  })
  return {
    port: started.traffic.port,
    apiPort: started.api.port,
    apiKey: API_KEY,
    log: sink.lines,
    line: (matches) => sink.line(matches),
    async reload(text) {
      await writeFile(policyFile, text)
      return app.reload(loaded.options)
    },
    listeners: (wanted) => app.reload({ ...loaded.options, listeners: wanted }),
    stop
  }
}

class LogSink extends Writable {
  readonly lines: Record<string, unknown>[] = []
  readonly #waiting: {
    matches: (line: Record<string, unknown>) => boolean
    found: (line: Record<string, unknown>) => void
  }[] = []

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    for (const text of chunk.toString().split('\n')) {
      if (text === '') continue
      const line = JSON.parse(text) as Record<string, unknown>
      this.lines.push(line)
      for (const waiting of [...this.#waiting]) {
        if (!waiting.matches(line)) continue
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        waiting.found(line)
      }
    }
    done()
  }

  line(matches: (line: Record<string, unknown>) => boolean): Promise<Record<string, unknown>> {
    const known = this.lines.find(matches)
    if (known !== undefined) return Promise.resolve(known)
    return new Promise((found) => {
      this.#waiting.push({ matches, found })
    })
  }
}
