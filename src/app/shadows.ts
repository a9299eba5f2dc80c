import { ControlError, controlErrors, refusedPolicy } from '../control/errors.js'
import type { Beside, ShadowCandidate, ShadowRunner, ShadowSettings } from '../control/shadow-runner.js'
import { limitedAt } from '../features/rate-limit/feature.js'
import { actions, modules } from '../features/registry.js'
import { type Flow, isInternal } from '../flow/flow.js'
import type { Geo } from '../lib/geo.js'
import { newId } from '../lib/id.js'
import { type Json, timestampText } from '../lib/json.js'
import { Slices } from '../lib/slices.js'
import { formatDuration } from '../lib/units.js'
import type { Options } from '../options/options.js'
import { POLICY_MODULE } from '../policy/record-policy.js'
import { trustingProxies } from '../proxy/client-address.js'
import { preparing } from '../runtime/compile.js'
import { PersistentState } from '../runtime/persistent-state.js'
import type { RouteUnit } from '../runtime/plan.js'
import { asKind } from '../runtime/plan-changes.js'
import type { Snapshot } from '../runtime/snapshot.js'
import type { ExchangeRecorder } from '../workbench/recorder/exchange-recorder.js'
import { Judge } from '../workbench/shadow/judge.js'
import { type Candidate, ShadowRun } from '../workbench/shadow/shadow.js'
import { type ShadowParts, ShadowSnapshot } from '../workbench/shadow/shadow-snapshot.js'
import type { ShadowExample } from '../workbench/shadow/tally.js'
import { unknown } from '../workbench/shadow/trial.js'
import type { Foundation } from './foundation.js'
import { labExpressions, labServices } from './lab.js'
import { ShadowLimits } from './shadow-limits.js'

/** Shadows that run at once, and ended ones that are kept. */
const MOST_RUNNING = 4
const MOST_ENDED = 16
/** Longest wait for the next whole millisecond; milliseconds. */
const LONGEST_WAIT = 2

type OfFoundation = 'clock' | 'log' | 'holder' | 'observers' | 'metrics' | 'limiter' | 'trusted' | 'publicUrl'

interface RunningShadowsParts extends Pick<Foundation, OfFoundation> {
  readonly rateLimitHeaders: Options['rate_limit_headers']
  readonly geo: Geo
  readonly recorder: Pick<ExchangeRecorder, 'attends' | 'shadowed'>
}

interface Shadow {
  readonly id: string
  readonly settings: ShadowSettings
  readonly candidate: Candidate
  readonly run: ShadowRun
  readonly createdAt: number
  readonly stop: () => void
  endedAt: number | undefined
  endedReason: string | undefined
  revision: number
}

/** The shadows of this process. */
export class RunningShadows implements ShadowRunner {
  readonly #parts: RunningShadowsParts
  readonly #shadows = new Map<string, Shadow>()
  readonly #listeners: ((difference: ShadowExample, shadow: string, flow: Flow) => void)[] = []

  constructor(parts: RunningShadowsParts) {
    this.#parts = parts
    this.onDifference(({ new: decision, differs, explanation }, id, flow) => {
      // What runs beside traffic for others than the API has no id.
      if (id !== '') parts.recorder.shadowed(flow, { id, decision, differs, explanation })
    })
  }

  /** Calls `listener` for each kind of difference when it is first seen, and for one difference a second. It does not throw. */
  onDifference(listener: (difference: ShadowExample, shadow: string, flow: Flow) => void): void {
    this.#listeners.push(listener)
  }

  async start(
    wanted: ShadowCandidate,
    settings: ShadowSettings
  ): Promise<{ readonly id: string; readonly shadow: Json }> {
    this.#mustHaveRoom()
    const { holder, log } = this.#parts
    const bench = this.#bench(settings)
    const candidate = new ComposedCandidate(wanted, { ...bench.parts, instead: wanted.instead })
    const refusal = await candidate.open(holder.current())
    if (refusal !== undefined) throw refusal
    this.#mustHaveRoom()
    const shadow = this.#begin(candidate, settings, bench)
    log.info({ shadow: shadow.id, name: settings.name, share: settings.share }, 'a shadow runs beside traffic')
    return { id: shadow.id, shadow: this.#present(shadow, true) }
  }

  beside(base: Snapshot, routes: Candidate['routes'], settings: ShadowSettings): Beside {
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

  list(): readonly Json[] {
    return [...this.#shadows.values()].reverse().map((shadow) => this.#present(shadow, false))
  }

  get(id: string): Json | undefined {
    const shadow = this.#shadows.get(id)
    return shadow === undefined ? undefined : this.#present(shadow, true)
  }

  remove(id: string): boolean {
    const shadow = this.#shadows.get(id)
    if (shadow === undefined) return false
    this.#end(shadow, 'deleted')
    return this.#shadows.delete(id)
  }

  /** Ends all of them. */
  close(): void {
    for (const shadow of this.#shadows.values()) this.#end(shadow, 'the process stops')
  }

  #begin(candidate: Candidate, settings: ShadowSettings, bench: Bench): Shadow {
    const { clock, holder } = this.#parts
    const createdAt = clock.wall()
    const id = newId('shd', createdAt)
    const ended = (reason: string) => this.#end(shadow, reason)
    const { run, stop } = this.#observe(candidate, settings, bench, ended, id)
    const expiry = setTimeout(() => this.#end(shadow, 'its time is over'), settings.duration)
    expiry.unref()
    const shadow: Shadow = {
      id,
      settings,
      candidate,
      run,
      createdAt,
      stop: () => {
        clearTimeout(expiry)
        stop()
      },
      endedAt: undefined,
      endedReason: undefined,
      revision: holder.current().revision
    }
    this.#shadows.set(id, shadow)
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

  /** What a candidate is compiled with, and run by. */
  #bench({ share, budget, counters }: ShadowSettings): Bench {
    const { clock, limiter, trusted, geo, rateLimitHeaders } = this.#parts
    const judge = new Judge({ forwarding: trustingProxies(trusted), budget, now: () => performance.now(), worked })
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
      limits,
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

  #mustHaveRoom(): void {
    const running = [...this.#shadows.values()].filter(({ endedAt }) => endedAt === undefined)
    if (running.length < MOST_RUNNING) return
    const message = `${MOST_RUNNING} shadows run already: ${running.map(({ id }) => id).join(', ')}`
    throw new ControlError(controlErrors.SHADOWS_FULL, message)
  }

  #end(shadow: Shadow, reason: string): void {
    if (shadow.endedAt !== undefined) return
    shadow.endedAt = this.#parts.clock.wall()
    shadow.endedReason = reason
    shadow.stop()
    const ended = [...this.#shadows.values()].filter(({ endedAt }) => endedAt !== undefined)
    for (const { id } of ended.slice(0, -MOST_ENDED)) this.#shadows.delete(id)
  }

  #present(shadow: Shadow, whole: boolean): Json {
    const { id, settings, candidate, run, createdAt } = shadow
    const { name, share, budget, duration, counters } = settings
    // A route may have gone although no exchange has come since.
    const running = this.#parts.holder.current()
    if (shadow.endedAt === undefined && run.follows(running) !== undefined) shadow.revision = running.revision
    const { endedAt, endedReason, revision } = shadow
    const { tally } = run
    return {
      id,
      uri: `${this.#parts.publicUrl.read()}/shadows/${id}`,
      name,
      state: endedAt === undefined ? 'running' : 'ended',
      ended_reason: endedReason ?? null,
      created_at: timestampText(createdAt),
      expires_at: timestampText(createdAt + duration),
      ended_at: endedAt === undefined ? null : timestampText(endedAt),
      revision,
      routes: candidate.routes === 'every' ? null : [...candidate.routes],
      share,
      budget: formatDuration(budget),
      counters,
      counts: { ...tally.counts },
      not_judged: Object.fromEntries([...tally.notJudged].sort(([, a], [, b]) => b - a)),
      work: { milliseconds: rounded(tally.spent), slowest: rounded(tally.slowest) },
      ...(whole ? { matrix: tally.cells() } : {}),
      others: tally.others
    }
  }
}

interface Bench {
  readonly judge: Judge
  readonly parts: Omit<ShadowParts, 'instead'>
  /** Counters are gone on from as they are now. */
  readonly begin: () => void
}

/** What a request to the API tries, on whatever serves. */
class ComposedCandidate implements Candidate {
  routes: ReadonlySet<string> | 'every' = new Set()
  readonly #wanted: ShadowCandidate
  readonly #parts: ShadowParts
  /** The configuration that serves, and what stands on it. */
  #composed: { readonly running: Snapshot; readonly snapshot: ShadowSnapshot } | undefined
  #composing: Snapshot | undefined
  #gone: string | undefined

  constructor(wanted: ShadowCandidate, parts: ShadowParts) {
    this.#wanted = wanted
    this.#parts = parts
  }

  /** Composes it for the first time; answers what is wrong with it. */
  async open(running: Snapshot): Promise<ControlError | undefined> {
    const missing = this.#missing(running)
    if (missing !== undefined) return withoutPolicy(missing)
    await this.#compose(running)
    const { snapshot } = this.#composed ?? {}
    if (snapshot === undefined) return new ControlError(controlErrors.NOT_FOUND, this.#gone ?? 'it cannot be composed')
    const problems = snapshot.problems()
    if (problems.length > 0) return refusedPolicy(problems)
    for (const key of this.#wanted.instead.keys()) snapshot.policy(key)
    if (this.routes !== 'every' && this.routes.size === 0) return withoutPolicy(sources(this.#wanted))
    return undefined
  }

  on(running: Snapshot): ShadowSnapshot | string | undefined {
    if (this.#gone !== undefined) return this.#gone
    if (this.#composed?.running.plan === running.plan) return this.#composed.snapshot
    const missing = this.#missing(running)
    if (missing !== undefined) return `the route ${missing} is gone, or has no traffic policy any more`
    if (this.#composing?.plan !== running.plan) void this.#compose(running)
    return this.#composed?.running.plan === running.plan ? this.#composed.snapshot : undefined
  }

  #missing({ plan }: Snapshot): string | undefined {
    for (const [key, { source }] of this.#wanted.instead) {
      if (asKind(plan.units.get(key), 'policy') === undefined) return source
    }
    return undefined
  }

  /** In slices beside traffic. Never rejects. */
  async #compose(running: Snapshot): Promise<void> {
    this.#composing = running
    const { changes } = this.#wanted
    let base = running
    if (changes !== undefined) {
      const { put, drop, secrets } = changes
      const { number } = running.plan
      const present = drop.filter((key) => running.plan.units.has(key))
      const change = { from: number, to: number + 1, put, drop: present }
      const options = { ...this.#parts, guests: this.#parts, persistentState: new PersistentState() }
      const prepared = await Slices.besideTraffic().run(preparing(running, change, secrets, options))
      if (!prepared.ok) {
        this.#gone = 'its changes do not fit the configuration that serves now'
        return
      }
      base = prepared.snapshot
    }
    if (this.#composing !== running) return
    const snapshot = new ShadowSnapshot(base, running, this.#parts)
    if (changes === undefined && this.#composed !== undefined) this.#composed = { running, snapshot }
    const routes = await routesOf([running, base], this.#wanted)
    if (this.#composing !== running) return
    this.routes = routes
    this.#composed = { running, snapshot }
  }
}

function sources({ instead }: ShadowCandidate): string {
  return [...instead.values()].map(({ source }) => source).join(', ')
}

function withoutPolicy(route: string): ControlError {
  const field = 'policies.route'
  return new ControlError(controlErrors.NOT_FOUND, `no route ${route} with a traffic policy serves here`, { field })
}

/** The routes whose exchanges a candidate may decide otherwise. */
async function routesOf(
  snapshots: readonly Snapshot[],
  { instead, changes }: ShadowCandidate
): Promise<Candidate['routes']> {
  const found = new Set(changes?.routes)
  const slices = Slices.besideTraffic()
  const all = new Set(snapshots)
  for (const { plan } of all) {
    for (const [, unit] of plan.units) {
      if (slices.due) await slices.rest()
      if (unit.kind !== 'route') continue
      if (policiesOf(unit).some((key) => instead.has(key))) found.add(unit.id)
      if (!found.has(unit.id)) continue
      const edge = asKind(plan.units.get(`edge:${unit.edge}`), 'edge')
      const inside = edge !== undefined && edge.hosts !== 'every' && edge.hosts.some(({ host }) => isInternal(host))
      if (inside) return 'every'
    }
  }
  return found
}

function policiesOf({ modules: configs }: RouteUnit): string[] {
  const named = [configs[POLICY_MODULE] ?? []].flat() as readonly { readonly policy?: unknown }[]
  return named.flatMap(({ policy }) => (typeof policy === 'string' ? [policy] : []))
}

/** Waits, without giving the loop away, until what comes has a later whole millisecond than what came; answers the last one of before. */
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

function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 1_000) / 1_000
}
