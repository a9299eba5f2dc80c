import type { Foundation } from '../../app/foundation.js'
import { partKey } from '../../app/opened-parts.js'
import type { Challenges } from '../../app/ports.js'
import { ControlError, controlErrors } from '../../control/errors.js'
import { limitedAt } from '../../features/rate-limit/feature.js'
import { actions, modules } from '../../features/registry.js'
import type { Flow } from '../../flow/flow.js'
import type { Geo } from '../../lib/geo.js'
import { newId } from '../../lib/id.js'
import { timestampText } from '../../lib/json.js'
import { formatDuration, toMicroseconds } from '../../lib/units.js'
import type { Options } from '../../options/options.js'
import { trustingProxies } from '../../proxy/client-address.js'
import type { Snapshot } from '../../runtime/snapshot.js'
import { type Firewall, labExpressions, labServices } from '../explain/running-lab.js'
import type { ExchangeRecorder } from '../recorder/exchange-recorder.js'
import type { ShadowExample, ShadowView } from './answers.js'
import { Judge } from './judge.js'
import { type Candidate, ShadowRun } from './shadow.js'
import { ComposedCandidate } from './shadow-candidate.js'
import { ShadowLimits } from './shadow-limits.js'
import type { Beside, ShadowCandidate, ShadowRunner, ShadowSettings } from './shadow-runner.js'
import { type ShadowParts, ShadowSnapshot } from './shadow-snapshot.js'
import { unknown } from './trial.js'

/** Maximum number of running shadows. */
const MOST_RUNNING = 4
/** Maximum number of finished shadows that are kept. */
const MOST_ENDED = 16
/** Longest wait for the next whole millisecond; milliseconds. */
const LONGEST_WAIT = 2

type OfFoundation = 'clock' | 'log' | 'holder' | 'observers' | 'metrics' | 'limiter' | 'trusted' | 'publicUrl'

interface RunningShadowsParts extends Pick<Foundation, OfFoundation> {
  readonly rateLimitHeaders: Options['rate_limit_headers']
  readonly limitRules: Options['limiter']
  readonly geo: Geo
  /** Challenges of authorities; undefined if this process answers none. */
  /** Rules of the web application firewall. */
  readonly firewall: Firewall
  readonly challenges: Pick<Challenges, 'answer'> | undefined
  readonly recorder: Pick<ExchangeRecorder, 'attends' | 'shadowed'>
  /** Do other threads carry the traffic? Then no exchange comes by here. */
  readonly elsewhere: boolean
}

interface RunningShadow {
  readonly id: string
  readonly settings: ShadowSettings
  readonly candidate: Candidate
  readonly run: ShadowRun
  readonly createdAt: number
  readonly stop: () => void
  revision: number
}

/** Final results of a finished shadow, full and summary. */
interface EndedShadow {
  readonly id: string
  readonly whole: ShadowView
  readonly short: ShadowView
}

/** Time and reason of a shadow's end. */
interface End {
  readonly at: number | null
  readonly reason: string | null
}

const RUNNING: End = { at: null, reason: null }

/** The shadows of this process, for the API. */
export const RUNNING_SHADOWS = partKey<ShadowRunner>('shadows')

/** The shadows of this process. */
export class RunningShadows implements ShadowRunner {
  readonly #parts: RunningShadowsParts
  readonly #running = new Map<string, RunningShadow>()
  /** In the order in which they ended. */
  readonly #ended = new Map<string, EndedShadow>()
  readonly #listeners: ((difference: ShadowExample, shadow: string, flow: Flow) => void)[] = []

  constructor(parts: RunningShadowsParts) {
    this.#parts = parts
    this.onDifference(({ new: decision, differs, explanation }, id, flow) => {
      // Internal shadows have no id.
      if (id !== '') parts.recorder.shadowed(flow, { id, decision, differs, explanation })
    })
  }

  /** Calls `listener` for the first difference of each kind, and for one difference a second. It must not throw. */
  onDifference(listener: (difference: ShadowExample, shadow: string, flow: Flow) => void): void {
    this.#listeners.push(listener)
  }

  async start(wanted: ShadowCandidate, settings: ShadowSettings): Promise<ShadowView> {
    this.mustBeHere()
    this.#mustHaveRoom()
    const { holder, log } = this.#parts
    const bench = this.#bench(settings)
    const candidate = new ComposedCandidate(wanted, { ...bench.parts, instead: wanted.instead })
    const refusal = await candidate.open(holder.current())
    if (refusal !== undefined) throw refusal
    this.#mustHaveRoom()
    const shadow = this.#begin(candidate, settings, bench)
    log.info({ shadow: shadow.id, name: settings.name, share: settings.share }, 'a shadow runs beside traffic')
    return this.#present(shadow, RUNNING, true)
  }

  beside(base: Snapshot, routes: Candidate['routes'], settings: ShadowSettings): Beside {
    this.mustBeHere()
    const bench = this.#bench(settings)
    const candidate: Candidate = { routes, on: (running) => new ShadowSnapshot(base, running, bench.parts) }
    const { run, stop } = this.#observe(candidate, settings, bench, () => undefined, '')
    return {
      get counts() {
        return run.tally.counts
      },
      end: stop
    }
  }

  list(): readonly ShadowView[] {
    this.#follow()
    const running = [...this.#running.values()].reverse().map((shadow) => this.#present(shadow, RUNNING, false))
    return [...running, ...[...this.#ended.values()].reverse().map(({ short }) => short)]
  }

  get(id: string): ShadowView | undefined {
    this.#follow()
    const shadow = this.#running.get(id)
    return shadow === undefined ? this.#ended.get(id)?.whole : this.#present(shadow, RUNNING, true)
  }

  remove(id: string): boolean {
    const shadow = this.#running.get(id)
    if (shadow !== undefined) this.#end(shadow, 'it was deleted')
    return this.#ended.delete(id)
  }

  /** Ends all of them. */
  close(): void {
    for (const shadow of [...this.#running.values()]) this.#end(shadow, 'the process stops')
  }

  /** Stops shadows whose routes were deleted, even without new exchanges. */
  #follow(): void {
    const running = this.#parts.holder.current()
    for (const shadow of [...this.#running.values()]) {
      if (shadow.run.follows(running) !== undefined) shadow.revision = running.revision
    }
  }

  #begin(candidate: Candidate, settings: ShadowSettings, bench: Bench): RunningShadow {
    const { clock, holder } = this.#parts
    const createdAt = clock.wall()
    const id = newId('shd', createdAt)
    const ended = (reason: string) => this.#end(shadow, reason)
    const { run, stop } = this.#observe(candidate, settings, bench, ended, id)
    const expiry = setTimeout(() => this.#end(shadow, 'its time is over'), settings.duration)
    expiry.unref()
    const shadow: RunningShadow = {
      id,
      settings,
      candidate,
      run,
      createdAt,
      stop: () => {
        clearTimeout(expiry)
        stop()
      },
      revision: holder.current().revision
    }
    this.#running.set(id, shadow)
    return shadow
  }

  #observe(
    candidate: Candidate,
    { share, examples, counters }: ShadowSettings,
    { judge, begin }: Bench,
    ended: (reason: string) => void,
    id: string
  ): { readonly run: ShadowRun; readonly stop: () => void } {
    const { clock, log, observers, metrics } = this.#parts
    const run = new ShadowRun({
      candidate,
      judge,
      settings: { share, examples },
      clock,
      now: () => performance.now(),
      limitedAt,
      counted: (old, is) => metrics.shadowed(old, is),
      differs: (difference, flow) => {
        for (const listener of this.#listeners) listener(difference, id, flow)
      },
      failed: (error) => log.error({ err: error, shadow: id }, 'a shadow failed on an exchange'),
      ended
    })
    if (counters === 'running') begin()
    const leave = observers.add(run)
    const unrecorded = this.#parts.recorder.attends()
    return {
      run,
      stop: () => {
        leave()
        unrecorded()
        run.stop()
      }
    }
  }

  /** Creates the judge and the compile inputs of a candidate. */
  #bench({ share, budget, counters }: ShadowSettings): Bench {
    const { clock, limiter, trusted, geo, rateLimitHeaders, limitRules, firewall, challenges } = this.#parts
    const judge = new Judge({
      forwarding: trustingProxies(trusted),
      challenge: (host, path) => challenges?.answer(host, path),
      budget,
      now: () => performance.now(),
      worked
    })
    const random = () => {
      if (judge.trial !== undefined) unknown(judge.trial, 'random')
      return 0
    }
    const counted = { by: limiter, until: 0 }
    const limits = new ShadowLimits({
      judge,
      counted: counters === 'running' ? counted : undefined,
      everyone: share >= 1
    })
    const services = labServices(judge, {
      clock: judge.clock,
      expressions: labExpressions(judge.clock, geo, random),
      rateLimitHeaders,
      limitRules,
      limits,
      firewall,
      outside: () => {
        if (judge.trial !== undefined) unknown(judge.trial, 'http_request')
        return undefined
      }
    })
    return {
      judge,
      parts: { services, actions, kept: new Map(), compiled: new Map(), modules: modules.map(({ name }) => name) },
      begin: () => {
        counted.until = endOfMillisecond(() => clock.monotonic())
      }
    }
  }

  /** Fails where other threads carry the traffic: no exchange comes by here. */
  mustBeHere(): void {
    if (!this.#parts.elsewhere) return
    const message = 'threads carry the traffic (workers): nothing can be tried beside it'
    throw new ControlError(controlErrors.EXCHANGES_ELSEWHERE, message)
  }

  #mustHaveRoom(): void {
    if (this.#running.size < MOST_RUNNING) return
    const message = `${MOST_RUNNING} shadows run already: ${[...this.#running.keys()].join(', ')}`
    throw new ControlError(controlErrors.SHADOWS_FULL, message)
  }

  /** Ends a shadow and keeps only its results: its buckets and compiled policies are released. */
  #end(shadow: RunningShadow, reason: string): void {
    const { id } = shadow
    if (!this.#running.delete(id)) return
    shadow.stop()
    const end = { at: this.#parts.clock.wall(), reason }
    this.#ended.set(id, { id, whole: this.#present(shadow, end, true), short: this.#present(shadow, end, false) })
    const [oldest] = this.#ended.keys()
    if (oldest !== undefined && this.#ended.size > MOST_ENDED) this.#ended.delete(oldest)
  }

  #present({ id, settings, candidate, run, createdAt, revision }: RunningShadow, end: End, whole: boolean): ShadowView {
    const { name, share, budget, duration, counters } = settings
    const { tally } = run
    return {
      id,
      uri: `${this.#parts.publicUrl.read()}/shadows/${id}`,
      name,
      state: end === RUNNING ? 'running' : 'ended',
      ended_reason: end.reason,
      created_at: timestampText(createdAt),
      expires_at: timestampText(createdAt + duration),
      ended_at: end.at === null ? null : timestampText(end.at),
      revision,
      routes: candidate.routes === 'every' ? null : [...candidate.routes],
      share,
      budget: formatDuration(budget),
      counters,
      counts: { ...tally.counts },
      not_judged: Object.fromEntries([...tally.notJudged].sort(([, a], [, b]) => b - a)),
      work: { milliseconds: toMicroseconds(tally.spent), slowest: toMicroseconds(tally.slowest) },
      ...(whole ? { matrix: tally.cells() } : {}),
      others: tally.others
    }
  }
}

interface Bench {
  readonly judge: Judge
  readonly parts: Omit<ShadowParts, 'instead'>
  /** Copies the current counters. */
  readonly begin: () => void
}

/** Waits, without yielding to the event loop, for the next whole millisecond; returns the last one before it. */
function endOfMillisecond(monotonic: () => number): number {
  const until = Math.ceil(monotonic())
  const begun = performance.now()
  while (monotonic() <= until && performance.now() - begun < LONGEST_WAIT);
  return until
}

/** Milliseconds of processors; those of other threads count too. */
function worked(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
