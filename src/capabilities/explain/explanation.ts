import type {
  ActionOutcome,
  Explainer,
  ExpressionExplainer,
  Placed,
  RuleOutcome,
  ValueOrigin
} from '../../flow/explainer.js'
import type { Flow } from '../../flow/flow.js'
import type { HeaderList } from '../../flow/headers.js'
import type { Verdict } from '../../flow/verdict.js'
import type { Place } from '../../lib/positions.js'
import type { Draft } from '../../schema/answer.js'
import { isSensitive, REDACTED, redact, redactUrl } from '../../telemetry/redaction.js'
import type { ExplainedExpression as ExplainedExpressionAnswer, StepDraft } from './answers.js'

type ExplainedExpression = Draft<ExplainedExpressionAnswer>
type ExplainedPart = ExplainedExpression['parts'][number]
type ExplainedPhase = StepDraft['phases'][number]
type ExplainedRule = ExplainedPhase['rules'][number]
type ExplainedAction = ExplainedRule['actions'][number]

export interface ExplanationOptions {
  /** Shows values whose names look secret, if the requester has written them. Vault values are never shown. */
  readonly reveal: boolean
  /** See `Explainer`. */
  readonly imagined: boolean
}

/** Maximum characters of one value; the rest is counted and dropped. */
const MOST_CHARACTERS = 2_000
/** Maximum number of records of one explanation. */
const MOST_RECORDS = 5_000

/** Parts of a flow that an action may change. */
interface State {
  readonly values: ReadonlyMap<string, unknown>
  readonly results: ReadonlyMap<string, unknown>
}

/** Records how one exchange is decided, as plain data without values whose names look secret. */
export class ExplanationRecorder implements Explainer<Flow> {
  readonly steps: StepDraft[] = []
  /** Records that were left out because there were too many. */
  omitted = 0
  readonly imagined: boolean
  readonly #reveal: boolean
  #records = 0
  #step: StepDraft | undefined
  #phase: ExplainedPhase | undefined
  #rule: ExplainedRule | undefined
  #ruleIndex = -1
  #action: { readonly shown: ExplainedAction; readonly before: State } | undefined
  #place: Place | undefined

  constructor({ reveal, imagined }: ExplanationOptions) {
    this.#reveal = reveal
    this.imagined = imagined
  }

  step(module: string, owner: string, on: StepDraft['on']): void {
    this.#phase = undefined
    this.#step = { module, owner, on, outcome: 'continued', phases: [] }
    if (this.#hasRoom()) this.steps.push(this.#step)
  }

  unjudged(module: string, owner: string, reason: string): void {
    if (this.#hasRoom()) this.steps.push({ module, owner, on: 'request', outcome: 'not_judged', reason, phases: [] })
  }

  stepped(verdict: Verdict | undefined): void {
    if (this.#step !== undefined && verdict !== undefined) this.#step.outcome = OUTCOMES[verdict.kind]
  }

  phase(phase: string, owner: string, rules: Parameters<Explainer<Flow>['phase']>[2]): void {
    this.#endRule()
    this.#ruleIndex = -1
    this.#phase = {
      phase,
      owner,
      rules: rules.map(({ name, place }) => ({ name, place, outcome: 'not_reached', expressions: [], actions: [] }))
    }
    if (this.#hasRoom()) this.#step?.phases.push(this.#phase)
  }

  rule(): void {
    this.#endRule()
    this.#rule = this.#phase?.rules[++this.#ruleIndex]
  }

  ruled(outcome: RuleOutcome, reason?: string): void {
    if (this.#rule === undefined) return
    this.#rule.outcome = outcome
    if (reason !== undefined) this.#rule.reason = reason
  }

  at(place: Place | undefined): void {
    this.#place = place
  }

  expression(source: string): ExpressionExplainer {
    const shown: ExplainedExpression = { source, place: this.#place ?? null, parts: [] }
    this.#place = undefined
    const list = this.#action?.shown.expressions ?? this.#rule?.expressions
    if (list !== undefined && this.#hasRoom()) list.push(shown)
    return this.#takingDown(shown)
  }

  action(type: string, { place }: Placed, flow: Flow): void {
    const shown: ExplainedAction = { type, place, outcome: 'continued', published: {}, edits: [], expressions: [] }
    this.#action = { shown, before: stateOf(flow) }
    if (this.#hasRoom()) this.#rule?.actions.push(shown)
  }

  acted(outcome: ActionOutcome, flow: Flow, reason?: string): void {
    if (this.#action === undefined) return
    const { shown, before } = this.#action
    const after = stateOf(flow)
    shown.outcome = outcome
    if (reason !== undefined) shown.reason = reason
    for (const [name, value] of after.results) {
      if (before.results.get(name) !== value) shown.published[name] = this.#published(name, value)
    }
    for (const of of new Set([...before.values.keys(), ...after.values.keys()])) {
      const [was, is] = [before.values.get(of) ?? null, after.values.get(of) ?? null]
      if (JSON.stringify(was) !== JSON.stringify(is))
        shown.edits.push({ of, before: this.#shown(was, [of]), after: this.#shown(is, [of]) })
    }
    this.#action = undefined
  }

  /** Returns the displayable form of data from sources with these names. */
  #shown(value: unknown, names: readonly string[], secret = false): unknown {
    if (typeof value === 'boolean' || value === null) return value
    if (secret || (!this.#reveal && names.some(isSensitive))) return REDACTED
    return short(this.#reveal ? value : redacted(value))
  }

  #published(name: string, value: unknown): unknown {
    return this.#shown(plain(value), [name])
  }

  #takingDown(shown: ExplainedExpression): ExpressionExplainer {
    const parts = new Map<number, ExplainedPart>()
    const partAt = (start: number, end: number): ExplainedPart | undefined => {
      const key = start * 65_536 + end
      const known = parts.get(key)
      if (known !== undefined) {
        known.times = (known.times ?? 1) + 1
        return known
      }
      if (!this.#hasRoom()) return undefined
      const part: ExplainedPart = { offset: start, length: end - start }
      parts.set(key, part)
      return part
    }
    const settle = () => {
      shown.parts = [...parts.values()].sort((a, b) => a.offset - b.offset || b.length - a.length)
    }
    return {
      part: (start, end, value, from) => {
        const part = partAt(start, end)
        if (part === undefined) return
        delete part.missing
        part.value = this.#of(value, from)
      },
      missing: (start, end, reason) => {
        const part = partAt(start, end)
        if (part === undefined) return
        delete part.value
        part.missing = reason
      },
      ended: (value, from) => {
        shown.value = this.#of(value, from)
        settle()
      },
      failed: (_kind, reason) => {
        shown.missing = reason
        settle()
      }
    }
  }

  #of(value: unknown, { names, secret }: ValueOrigin): unknown {
    return this.#shown(value, names, secret)
  }

  #endRule(): void {
    this.#rule = undefined
    this.#action = undefined
    this.#place = undefined
  }

  #hasRoom(): boolean {
    if (this.#records < MOST_RECORDS) {
      this.#records++
      return true
    }
    this.omitted++
    return false
  }
}

const OUTCOMES = { respond: 'responded', close: 'closed', forward: 'led_on' } as const

function stateOf({ request, response, vars, results }: Flow): State {
  const values = new Map<string, unknown>()
  if (request !== undefined) {
    values.set('request.method', request.method)
    values.set('request.uri', request.target.uri)
    headersInto(values, 'request', request.headers.list)
  }
  if (response !== undefined) {
    values.set('response.status', response.status)
    headersInto(values, 'response', response.headers.list)
  }
  for (const [name, value] of vars ?? []) values.set(`vars.${name}`, plain(value))
  return { values, results: new Map(results ?? []) }
}

function headersInto(values: Map<string, unknown>, of: string, list: HeaderList): void {
  for (let i = 0; i < list.length; i += 2) {
    const key = `${of}.headers.${(list[i] as string).toLowerCase()}`
    const known = values.get(key) as string[] | undefined
    if (known === undefined) values.set(key, [list[i + 1]])
    else known.push(list[i + 1] as string)
  }
}

/** Returns a JSON copy: accessors are read, and safe integers become numbers. */
function plain(value: unknown): unknown {
  if (typeof value === 'bigint') {
    const number = Number(value)
    return Number.isSafeInteger(number) ? number : String(value)
  }
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, item]) => [String(key), plain(item)]))
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]))
  return typeof value === 'function' || typeof value === 'symbol' ? undefined : value
}

function redacted(value: unknown): unknown {
  if (typeof value === 'string') return redactUrl(value)
  if (Array.isArray(value)) return value.map(redacted)
  return redact(value, 0)
}

function short(value: unknown): unknown {
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return value
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  if (text === undefined || text.length <= MOST_CHARACTERS) return value
  return `${text.slice(0, MOST_CHARACTERS)}… (${text.length} characters)`
}
