import { setImmediate as turnOfLoop } from 'node:timers/promises'
import type { Exchange } from '../../flow/exchange.js'
import { type Flow, flowSlot, isInternal } from '../../flow/flow.js'
import { clientKey } from '../../lib/client-limits.js'
import type { Clock } from '../../lib/clock.js'
import type { AdmittedFlow } from '../../proxy/admission.js'
import type { ExchangeObserver } from '../../proxy/observers.js'
import { routeOf } from '../../proxy/route-steps.js'
import type { Snapshot } from '../../runtime/snapshot.js'
import type { ExchangeRecord } from '../../telemetry/access-log.js'
import { redactUrl } from '../../telemetry/redaction.js'
import type { Explanation } from '../explain/answers.js'
import { ExplanationRecorder } from '../explain/explanation.js'
import { explanationOf, withoutTexts } from '../explain/explanation-of.js'
import type { ShadowExample } from './answers.js'
import { differencesOf, type Outcome, type Unknown, wordOf } from './decision.js'
import type { Judge } from './judge.js'
import type { ShadowSnapshot } from './shadow-snapshot.js'
import { shownDecision, Tally } from './tally.js'
import { LiveExchange, Trial, unknown } from './trial.js'

/** Maximum number of exchanges in progress; further ones are dropped. */
const MOST_WAITING = 10_000
/** Maximum bytes of their heads; further exchanges are dropped. */
const MOST_BYTES = 16 * 1024 * 1024
/** Milliseconds that the work may hold the loop at a stretch; one exchange more at most. */
const HOLD = 1
/** Turns of the microtask queue after which an unfinished trial counts as asynchronous. */
const TURNS = 12
/** One exchange in this many may run twice, as may the first ones. */
const SECOND_TIMES = 20
/** Milliseconds between differences that are passed on although there are examples enough. */
const PASSED_ON_EVERY = 1_000

interface ShadowSettings {
  /** Share of clients, 0 to 1. */
  readonly share: number
  /** Maximum number of examples for each cell. */
  readonly examples: number
}

/** A tested configuration, composed over the running one. */
export interface Candidate {
  /**
   * Returns the candidate over the running configuration, the reason why there is none any more, or undefined while it is composed. Does not
   * throw.
   */
  on(running: Snapshot): ShadowSnapshot | string | undefined
  /** Ids of the changed routes; `every` if exchanges may reach them from every other route. */
  readonly routes: ReadonlySet<string> | 'every'
}

export interface ShadowRunParts {
  readonly candidate: Candidate
  readonly judge: Judge
  readonly settings: ShadowSettings
  /** The clock of traffic. */
  readonly clock: Clock
  /** Monotonic clock (ms). */
  readonly now: () => number
  /** Returns the time of the flow's last limit decision (monotonic ms). */
  readonly limitedAt: (flow: Flow) => number | undefined
  /** Counts one exchange: a word for each decision. */
  readonly counted: (old: string, candidate: string) => void
  /** An exchange that is decided otherwise: the first ones of each kind, and one a second. Does not throw. */
  readonly differs: (difference: ShadowExample, flow: Flow) => void
  /** A defect of the program. */
  readonly failed: (error: unknown) => void
  /** There is no candidate any more, and why. */
  readonly ended: (reason: string) => void
}

/**
 * Judges a candidate on passing client exchanges. The live exchange is only observed: its request runs through the candidate in a later turn of
 * the event loop, in the order of the exchanges' start, and its response after the head was sent to the client.
 */
export class ShadowRun implements ExchangeObserver {
  readonly tally: Tally
  readonly #parts: ShadowRunParts
  readonly #slot = flowSlot<Trial>('shadow.trial')
  readonly #queue: Trial[] = []
  #queued = 0
  #waiting = 0
  #secondTimes = 0
  #bytes = 0
  #working = false
  #over = false
  readonly #unexplained = new Map<Trial, { readonly old: Outcome; readonly candidate: Outcome }>()
  #passedOn = Number.NEGATIVE_INFINITY
  #base: Snapshot | undefined
  #snapshot: ShadowSnapshot | undefined

  constructor(parts: ShadowRunParts) {
    this.#parts = parts
    this.tally = new Tally(parts.settings.examples)
  }

  /** Composes the candidate over a changed running configuration. */
  follows(running: Snapshot): ShadowSnapshot | undefined {
    if (this.#base?.plan === running.plan && this.#snapshot !== undefined) return this.#snapshot
    const composed = this.#parts.candidate.on(running)
    if (typeof composed === 'string') {
      this.stop()
      this.#parts.ended(composed)
      return undefined
    }
    this.#base = composed === undefined ? undefined : running
    this.#snapshot = composed
    return composed
  }

  /** Stops judging. */
  stop(): void {
    this.#over = true
    this.#queue.length = 0
  }

  begins(exchange: Exchange, flow: AdmittedFlow): 'passed-over' | undefined {
    const { settings, clock } = this.#parts
    if (this.#over || !isSampled(flow.clientAddress, settings.share)) return 'passed-over'
    const running = flow.units as Snapshot
    const snapshot = this.follows(running)
    const changed = snapshot !== undefined && snapshot.plan !== running.plan
    if (!this.#concerns(running, flow) && !(changed && this.#concerns(snapshot, flow))) return 'passed-over'
    this.tally.seen++
    if (snapshot === undefined) {
      this.#unjudged('reconfigured', undefined)
      return 'passed-over'
    }
    if (this.#waiting >= MOST_WAITING || this.#bytes >= MOST_BYTES) {
      this.tally.dropped++
      return 'passed-over'
    }
    const trial = new Trial(new LiveExchange(exchange, flow, clock), snapshot)
    this.#waiting++
    this.#bytes += trial.live.bytes
    flow.set(this.#slot, trial)
    this.#enqueue(trial)
    return undefined
  }

  forwards(flow: Flow, upstream: string | undefined): void {
    flow.get(this.#slot)?.live.forwards(upstream)
  }

  answers(flow: Flow, status: number, code: string | undefined): void {
    const trial = flow.get(this.#slot)
    if (trial === undefined || trial.live.outcome !== undefined) return
    trial.live.answers(status, code)
    this.#enqueue(trial)
  }

  ended({ flow, status, code, sent }: ExchangeRecord): void {
    const trial = flow?.get(this.#slot)
    if (trial === undefined || trial.live.outcome !== undefined) return
    trial.live.ended(status, code, sent.failure !== undefined)
    this.#enqueue(trial)
  }

  #concerns(snapshot: Snapshot, { request, entry }: AdmittedFlow): boolean {
    const { routes } = this.#parts.candidate
    const { host } = request.target
    if (routes === 'every' || isInternal(host)) return routes === 'every'
    const found = snapshot.tables.edges.hosts.at(host, entry.publicPort, entry.port)
    const route = found === undefined ? undefined : routeOf(found.edge, request)
    return route !== undefined && routes.has(route.id)
  }

  #enqueue(trial: Trial): void {
    if (this.#over) return
    this.#queue.push(trial)
    if (this.#working) return
    this.#working = true
    void this.#work()
  }

  /** The work of many exchanges, in slices. Never rejects. */
  async #work(): Promise<void> {
    await turnOfLoop()
    this.#parts.judge.begins()
    let begun = this.#parts.now()
    while (this.#queued < this.#queue.length) {
      const trial = this.#queue[this.#queued++] as Trial
      try {
        await this.#goOn(trial)
      } catch (error) {
        this.#parts.failed(error)
        trial.state = 'done'
        unknown(trial, 'defect')
        this.#settle(trial)
      }
      if (this.#parts.now() - begun < HOLD) continue
      this.#queue.splice(0, this.#queued)
      this.#queued = 0
      await turnOfLoop()
      this.#parts.judge.begins()
      begun = this.#parts.now()
    }
    this.#queue.length = 0
    this.#queued = 0
    this.#working = false
  }

  async #goOn(trial: Trial): Promise<void> {
    const { judge, limitedAt } = this.#parts
    if (trial.state === 'ready') {
      // The candidate counts at the moment at which the limits of the one that serves have counted.
      trial.time = limitedAt(trial.live.flow) ?? trial.time
      await this.#run(trial)
      if (this.#mayRunAgain(trial)) {
        await turnOfLoop()
        judge.begins()
        trial.again()
        await this.#run(trial)
      }
    }
    if (trial.state === 'waits' && trial.live.outcome !== undefined) {
      judge.resume(trial)
      await settled(() => trial.state !== 'runs')
      judge.rests(trial)
    }
    if (trial.state === 'runs') trial.onDone = () => this.#enqueue(trial)
    this.#settle(trial)
    await this.#explain(trial)
  }

  async #run(trial: Trial): Promise<void> {
    const { judge } = this.#parts
    judge.run(trial)
    await settled(() => trial.state !== 'runs')
    judge.rests(trial)
  }

  /**
   * An exchange that took too long is missing in the counts of limits. Where that is rare it had to wait, such as for a collection of
   * garbage, and gets a second time.
   */
  #mayRunAgain({ late, state, decisions }: Trial): boolean {
    if (!late || state !== 'done' || decisions.length > 0) return false
    return ++this.#secondTimes * SECOND_TIMES <= this.tally.seen + SECOND_TIMES * 10
  }

  /** Counts a trial once both sides are known. */
  #settle(trial: Trial): void {
    const { live, state } = trial
    if (live.outcome === undefined || state !== 'done' || trial.counted) return
    trial.counted = true
    this.#forget(trial)
    this.tally.worked(trial.used)
    const { outcome: old } = live
    if (old === 'gone') this.#unjudged('client_gone', undefined)
    else if (trial.unknown !== undefined) this.#unjudged(trial.unknown, old)
    else if (trial.late) {
      this.tally.overBudget++
      this.#parts.counted(wordOf(old), 'over_budget')
    } else if (trial.outcome === undefined) this.#unjudged('defect', old)
    else this.#judged(trial, old, trial.outcome)
  }

  #judged(trial: Trial, old: Outcome, candidate: Outcome): void {
    const differs = differencesOf(old, candidate)
    const wanted = this.tally.judged(old, candidate, differs)
    const [was, is] = [wordOf(old), wordOf(candidate)]
    this.#parts.counted(was, differs.length > 0 && was === is ? 'rewritten' : is)
    if (wanted || (differs.length > 0 && this.#parts.now() - this.#passedOn >= PASSED_ON_EVERY)) {
      this.#passedOn = this.#parts.now()
      this.#unexplained.set(trial, { old, candidate })
    }
  }

  /** Records the explanation of a difference in a second run, which decides as the first one did. */
  async #explain(trial: Trial): Promise<void> {
    const found = this.#unexplained.get(trial)
    if (found === undefined) return
    this.#unexplained.delete(trial)
    const { old, candidate } = found
    const recorder = new ExplanationRecorder({ reveal: false, imagined: true })
    const again = new Trial(trial.live, trial.snapshot, { of: trial, recorder })
    this.#parts.judge.run(again)
    await settled(() => again.state === 'done')
    const { live } = trial
    const { target } = live.head
    const question = target.indexOf('?')
    const path = redactUrl(question === -1 ? target : target.slice(0, question))
    const example: ShadowExample = {
      at: new Date(live.flow.request.receivedAt).toISOString(),
      request: {
        method: live.head.method,
        host: live.flow.request.head.authority,
        path,
        client_ip: live.flow.clientAddress
      },
      route: again.record?.route?.id ?? null,
      old: shownDecision(old),
      new: shownDecision(candidate),
      differs: differencesOf(old, candidate),
      explanation: explained(again, recorder)
    }
    this.tally.keep(old, candidate, example)
    this.#parts.differs(example, live.flow)
  }

  #unjudged(reason: Unknown, old: Outcome | undefined): void {
    this.tally.unjudged(reason)
    this.#parts.counted(old === undefined ? 'none' : wordOf(old), 'not_judged')
  }

  #forget({ live }: Trial): void {
    this.#waiting--
    this.#bytes -= live.bytes
    live.flow.set(this.#slot, undefined)
  }
}

/** Waits for promises that settle within the current turn. */
async function settled(is: () => boolean): Promise<void> {
  for (let turn = 0; turn < TURNS && !is(); turn++) await undefined
}

/** All exchanges of a client or none, so that limits of one client see all of its requests. */
function isSampled(address: string, share: number): boolean {
  if (share >= 1) return true
  let hash = 0x811c9dc5
  const key = clientKey(address)
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  // The low bits of neighbours differ in little else (MurmurHash3, the finalizer).
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32 < share
}

function explained(trial: Trial, recorder: ExplanationRecorder): Explanation | null {
  const { live, snapshot, record, sent, outcome } = trial
  const { head, flow, entry } = live
  const text = `${head.scheme}://${head.authority}${head.target}`
  if (!URL.canParse(text)) return null
  const { peer } = live.connection
  const request = { method: head.method, url: text, headers: head.headers }
  const answer = outcome === undefined || typeof outcome.answer === 'string' ? undefined : outcome.answer
  const upstream = sent?.upstream
  const explanation = explanationOf({
    at: flow.request.receivedAt,
    snapshot,
    request: { ...request, clientAddress: peer.address },
    entry,
    recorder,
    reveal: false,
    record,
    sent:
      sent === undefined
        ? undefined
        : {
            ...sent,
            backend: upstream === undefined ? '' : upstream.slice(upstream.indexOf(':') + 1),
            name:
              upstream === undefined
                ? ''
                : (snapshot.upstream(upstream)?.name ?? upstream.slice(upstream.indexOf(':') + 1)),
            form: upstream === undefined ? '' : (snapshot.upstream(upstream)?.form ?? '')
          },
    answer: answer === undefined ? undefined : { ...answer, body: answer.body ?? new Uint8Array(0) },
    connectDecision: record === undefined ? outcome?.by : undefined
  })
  return withoutTexts(explanation, snapshot.read)
}
