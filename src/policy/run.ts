import { EvaluationError, type Expression } from '../expression/expression.js'
import { type FailureAnswer, flowErrors } from '../flow/error-codes.js'
import type { Placed } from '../flow/explainer.js'
import type { Flow, Phase } from '../flow/flow.js'
import { closeConnection, refuse, type Verdict } from '../flow/verdict.js'
import type { Place } from '../lib/positions.js'
import type { ActionRun } from './action.js'
import type { Counter, PolicyLog } from './services.js'

export interface CompiledAction extends Placed {
  readonly type: string
  readonly run: ActionRun
  /** Assigned to `flow.decidedBy` unchanged. */
  readonly decidedBy: NonNullable<Flow['decidedBy']>
  readonly decided: Counter
}

export interface CompiledRule extends Placed {
  readonly name: string
  readonly expressions: readonly Expression[]
  /** Positions of the expressions. */
  readonly places: readonly Place[]
  readonly actions: readonly CompiledAction[]
  readonly matched: Counter
  readonly absent: Counter
  readonly failed: Counter
  /** Assigned to `flow.decidedBy` if an expression of the rule fails. */
  readonly failedBy: NonNullable<Flow['decidedBy']>
}

interface CompiledPhaseParts {
  readonly phase: Phase
  readonly owner: string
  readonly rules: readonly CompiledRule[]
  /** Whether an absent value fails an expression. Otherwise the rule does not match. */
  readonly strict: boolean
  readonly log: PolicyLog
}

/** The rules of one phase, at least one. */
export class CompiledPhase {
  readonly phase: Phase
  readonly owner: string
  readonly rules: readonly CompiledRule[]
  readonly strict: boolean
  readonly log: PolicyLog
  /** Verdict for a failed evaluation: a policy that cannot be evaluated denies. */
  readonly failure: Verdict
  /** Verdict for an absent value; has its own code in a strict phase. */
  readonly absence: Verdict

  constructor({ phase, owner, rules, strict, log }: CompiledPhaseParts) {
    this.phase = phase
    this.owner = owner
    this.rules = rules
    this.strict = strict
    this.log = log
    this.failure = failureVerdict(phase, flowErrors.POLICY_EXPRESSION)
    this.absence = failureVerdict(phase, strict ? flowErrors.POLICY_VALUE_ABSENT : flowErrors.POLICY_EXPRESSION)
  }

  /**
   * Runs the rules of the phase in order, and the actions of each rule whose expressions are all true. The first verdict ends the phase;
   * undefined means that no action ended it. Synchronous unless an action waits. A rule with an absent key or index does not match; in a
   * strict phase it ends the phase with 500 `POLICY_VALUE_ABSENT`. Any other failure ends the phase with 500 `POLICY_EXPRESSION`.
   * Connections and event streams are closed.
   */
  run(flow: Flow): Verdict | undefined | Promise<Verdict | undefined> {
    flow.vars?.clear()
    flow.explainer?.phase(this.phase, this.owner, this.rules)
    return runFrom(this, flow, 0, 0)
  }
}

/** Returns the verdict for a policy that cannot be evaluated. */
function failureVerdict(phase: Phase, error: FailureAnswer): Verdict {
  if (phase === 'on_tcp_connect') return closeConnection
  // The response has started; only an abnormal end shows that it is incomplete.
  return phase === 'on_event_stream_message' ? { kind: 'close', how: 'reset' } : refuse(error)
}

/** Continues at an action of a matching rule, or at a rule if `actionIndex` is 0. */
function runFrom(
  phase: CompiledPhase,
  flow: Flow,
  ruleIndex: number,
  actionIndex: number
): Verdict | undefined | Promise<Verdict | undefined> {
  const { rules } = phase
  let a = actionIndex
  for (let r = ruleIndex; r < rules.length; r++, a = 0) {
    const rule = rules[r] as CompiledRule
    if (a === 0) {
      const match = matches(phase, rule, flow)
      if (match === false) continue
      if (match !== true) return match
      rule.matched.inc()
    }
    for (; a < rule.actions.length; a++) {
      const action = rule.actions[a] as CompiledAction
      let outcome: Verdict | undefined | Promise<Verdict | undefined>
      flow.explainer?.action(action.type, action, flow)
      try {
        outcome = action.run(flow)
      } catch (error) {
        return actionFailed(phase, rule, action, flow, error)
      }
      if (outcome === undefined) {
        flow.explainer?.acted('continued', flow)
        continue
      }
      if ('then' in outcome) return resume(outcome, phase, flow, r, a)
      return decide(action, flow, outcome)
    }
  }
  return undefined
}

async function resume(
  pending: Promise<Verdict | undefined>,
  phase: CompiledPhase,
  flow: Flow,
  ruleIndex: number,
  actionIndex: number
): Promise<Verdict | undefined> {
  const rule = phase.rules[ruleIndex] as CompiledRule
  const action = rule.actions[actionIndex] as CompiledAction
  let verdict: Verdict | undefined
  try {
    verdict = await pending
  } catch (error) {
    return actionFailed(phase, rule, action, flow, error)
  }
  if (verdict !== undefined) return decide(action, flow, verdict)
  flow.explainer?.acted('continued', flow)
  return actionIndex + 1 < rule.actions.length
    ? runFrom(phase, flow, ruleIndex, actionIndex + 1)
    : runFrom(phase, flow, ruleIndex + 1, 0)
}

function decide(action: CompiledAction, flow: Flow, verdict: Verdict): Verdict {
  flow.decidedBy = action.decidedBy
  action.decided.inc()
  flow.explainer?.acted('ended', flow)
  return verdict
}

/** Returns a verdict if an expression has no value and the phase must not continue: in a strict phase, or for another reason than absence. */
function matches(phase: CompiledPhase, rule: CompiledRule, flow: Flow): boolean | Verdict {
  const { explainer } = flow
  explainer?.rule(rule.name, rule)
  for (let i = 0; i < rule.expressions.length; i++) {
    explainer?.at(rule.places[i])
    const value = (rule.expressions[i] as Expression).outcome(flow)
    if (value === false) {
      explainer?.ruled('not_matched')
      return false
    }
    if (value !== true) return withoutValue(phase, rule, flow, value instanceof EvaluationError ? value : NOT_BOOL)
  }
  explainer?.ruled('matched')
  return true
}

const NOT_BOOL = new EvaluationError('failed', 'the expression is not true or false')

function withoutValue(phase: CompiledPhase, rule: CompiledRule, flow: Flow, error: EvaluationError): false | Verdict {
  const fields = { owner: phase.owner, phase: phase.phase, rule: rule.name, reason: error.message }
  if (error.kind === 'absent' && !phase.strict) {
    rule.absent.inc()
    flow.explainer?.ruled('absent', error.message)
    phase.log.debug(fields, 'a rule did not match because a value is absent')
    return false
  }
  rule.failed.inc()
  flow.explainer?.ruled('failed', error.message)
  phase.log.warn({ ...fields, ...codeOf(phase, error) }, 'an expression of a rule failed')
  flow.decidedBy = rule.failedBy
  return verdictOf(phase, error)
}

function verdictOf(phase: CompiledPhase, { kind }: EvaluationError): Verdict {
  return kind === 'absent' ? phase.absence : phase.failure
}

function codeOf({ strict }: CompiledPhase, { kind }: EvaluationError) {
  const { code } = strict && kind === 'absent' ? flowErrors.POLICY_VALUE_ABSENT : flowErrors.POLICY_EXPRESSION
  return { code }
}

function actionFailed(
  phase: CompiledPhase,
  rule: CompiledRule,
  action: CompiledAction,
  flow: Flow,
  error: unknown
): Verdict {
  if (!(error instanceof EvaluationError)) throw error
  const fields = { owner: phase.owner, phase: phase.phase, rule: rule.name, action: action.type, reason: error.message }
  rule.failed.inc()
  flow.explainer?.acted('failed', flow, error.message)
  phase.log.warn({ ...fields, ...codeOf(phase, error) }, 'an action failed')
  flow.decidedBy = action.decidedBy
  return verdictOf(phase, error)
}
