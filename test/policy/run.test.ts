import t from 'tap'
import { EvaluationError } from '../../src/expression/expression.js'
import type { Flow } from '../../src/flow/flow.js'
import { closeConnection, refuse, respond } from '../../src/flow/verdict.js'
import { type Action, type ActionRun, defineAction } from '../../src/policy/action.js'
import { config } from '../../src/policy/fields.js'
import { compileValid, newFlow, phaseOf, stand } from './stand.js'

/** Actions that write their name into `trail` and do what the name says. */
function actionsOf(trail: string[]): readonly Action[] {
  const later = () => new Promise<void>((resolve) => setImmediate(resolve))
  const runs: Record<string, ActionRun> = {
    pass: () => undefined,
    set: (flow) => {
      flow.vars ??= new Map()
      flow.vars.set('x', 1)
      return undefined
    },
    end: () => respond(418),
    'pass-later': async () => {
      await later()
      return undefined
    },
    'end-later': async () => {
      await later()
      return respond(419)
    },
    'fail-later': async () => {
      await later()
      throw new EvaluationError('failed', 'later')
    },
    fail: () => {
      throw new EvaluationError('failed', 'now')
    },
    absent: () => {
      throw new EvaluationError('absent', 'now')
    },
    bug: () => {
      throw new TypeError('a programming error')
    }
  }
  return Object.entries(runs).map(([type, run]) =>
    defineAction({
      summary: 'Ends the phase as its rule says.',
      example: { policy: '' },
      type,
      phases: ['on_tcp_connect', 'on_http_request', 'on_http_response', 'on_event_stream_message'],
      config: config({}),
      configOptional: true,
      terminates: 'sometimes',
      compile:
        (_config, { rule }) =>
        (flow: Flow) => {
          trail.push(`${rule}.${type}`)
          return run(flow)
        }
    })
  )
}

/** `true,false: pass end` is a rule with two expressions and two actions. */
function policyOf(lines: string[], phase = 'on_http_request') {
  const rules = lines.map((line) => {
    const [expressions = '', actions = ''] = line.includes(': ') ? line.split(': ') : ['', line]
    return {
      expressions: expressions.split(',').filter(Boolean),
      actions: actions.split(' ').map((type) => ({ type }))
    }
  })
  return JSON.stringify({ [phase]: rules })
}

function setUp(lines: string[], phase: Parameters<typeof phaseOf>[1] = 'on_http_request') {
  const trail: string[] = []
  const at = stand()
  const policy = compileValid(policyOf(lines, phase), actionsOf(trail), { stand: at })
  return { trail, ...at, compiled: phaseOf(policy, phase), flow: newFlow() }
}

t.test('a strict document fails closed when something is absent', async (t) => {
  const rules = [{ expressions: ['absent'], actions: [{ type: 'end' }] }, { actions: [{ type: 'pass' }] }]
  const outcomes = []
  for (const strict of [undefined, false, true]) {
    const at = stand()
    const trail: string[] = []
    const text = JSON.stringify({ strict_expressions: strict, on_http_request: rules, on_tcp_connect: rules })
    const policy = compileValid(text, actionsOf(trail), { stand: at })
    const verdicts = (['on_http_request', 'on_tcp_connect'] as const).map((phase) => {
      const flow = newFlow()
      const verdict = phaseOf(policy, phase).run(flow)
      return { verdict, by: flow.decidedBy?.action }
    })
    outcomes.push({ verdicts, trail, levels: at.logs.map(({ level }) => level) })
  }
  const lenient = {
    verdicts: [
      { verdict: undefined, by: undefined },
      { verdict: undefined, by: undefined }
    ],
    trail: ['#1.pass', '#1.pass'],
    levels: ['debug', 'debug']
  }
  t.same(outcomes, [
    lenient,
    lenient,
    {
      verdicts: [
        { verdict: refuse({ status: 500, code: 'POLICY_VALUE_ABSENT' }), by: 'expression' },
        { verdict: closeConnection, by: 'expression' }
      ],
      trail: [],
      levels: ['warn', 'warn']
    }
  ])
})

t.test('rules run in order, actions in order, until one ends the phase', async (t) => {
  const { compiled, flow, trail, counts } = setUp([
    'pass pass',
    'false: end',
    'true,true: pass',
    'true,false: end',
    'end pass',
    'pass'
  ])
  const verdict = compiled.run(flow)
  t.match(verdict, { kind: 'respond', status: 418 })
  t.same(trail, ['#0.pass', '#0.pass', '#2.pass', '#4.end'])
  t.same(flow.decidedBy, { phase: 'on_http_request', rule: '#4', action: 'end' })
  t.same(Object.fromEntries(counts), {
    'matched api on_http_request #0': 1,
    'matched api on_http_request #2': 1,
    'matched api on_http_request #4': 1,
    'decided api on_http_request #4 end': 1
  })
})

t.test('nothing that decides is undefined, at once', async (t) => {
  const { compiled, flow } = setUp(['pass', 'false: end', 'dyn: pass'])
  t.equal(compiled.run(flow), undefined)
  t.equal(flow.decidedBy, undefined)
})

t.test('an action that waits suspends the phase, and the phase goes on where it was', async (t) => {
  const { compiled, flow, trail, counts } = setUp([
    'pass-later pass pass-later',
    'false: end',
    'pass pass-later',
    'end-later pass'
  ])
  const pending = compiled.run(flow)
  t.ok(pending instanceof Promise)
  t.same(trail, ['#0.pass-later'], 'nothing after it has run')
  t.match(await pending, { status: 419 })
  t.same(trail, ['#0.pass-later', '#0.pass', '#0.pass-later', '#2.pass', '#2.pass-later', '#3.end-later'])
  t.equal(counts.get('matched api on_http_request #0'), 1, 'a resumed rule is matched once')
  t.same(flow.decidedBy, { phase: 'on_http_request', rule: '#3', action: 'end-later' })
})

t.test('an absent value in an expression is no match; it is counted and said at debug level', async (t) => {
  const { compiled, flow, trail, counts, logs } = setUp([
    'absent: end',
    'true,absent: end',
    'false,absent: end',
    'pass'
  ])
  t.equal(compiled.run(flow), undefined)
  t.same(trail, ['#3.pass'])
  t.equal(counts.get('absent api on_http_request #0'), 1)
  t.equal(counts.get('absent api on_http_request #1'), 1)
  t.equal(counts.has('absent api on_http_request #2'), false, 'a false expression is enough')
  t.same(
    logs.map(({ level }) => level),
    ['debug', 'debug']
  )
  t.equal(flow.decidedBy, undefined)
})

t.test('any other failure ends the phase with 500 and nothing more runs', async (t) => {
  for (const line of ['failed: pass', 'not-bool: pass', 'fail pass', 'absent', 'fail-later pass']) {
    const { compiled, flow, trail, counts, logs } = setUp([line, 'pass'])
    const verdict = await compiled.run(flow)
    t.same(verdict, refuse({ status: 500, code: 'POLICY_EXPRESSION' }), line)
    t.notOk(trail.includes('#1.pass'), line)
    t.equal(counts.get('failed api on_http_request #0'), 1, line)
    t.equal(flow.decidedBy?.rule, '#0', line)
    t.match(logs, [{ level: 'warn', fields: { owner: 'api', rule: '#0' } }], line)
  }
})

t.test('a connection is closed and a stream is cut when the policy fails', async (t) => {
  const connect = setUp(['failed: pass'], 'on_tcp_connect')
  t.same(connect.compiled.run(connect.flow), { kind: 'close', how: 'fin' })
  const stream = setUp(['fail'], 'on_event_stream_message')
  t.same(stream.compiled.run(stream.flow), { kind: 'close', how: 'reset' })
})

t.test('a programming error is not taken for a failed evaluation', async (t) => {
  for (const line of ['bug: pass', 'bug']) {
    const { compiled, flow } = setUp([line])
    t.throws(() => compiled.run(flow), TypeError, line)
  }
})

t.test('variables are those of one phase', async (t) => {
  const { compiled, flow, trail } = setUp(['set:x: end', 'set', 'set:x: pass'])
  t.equal(compiled.run(flow), undefined)
  t.same(trail, ['#1.set', '#2.pass'])
  t.equal(compiled.run(flow), undefined, 'the second run sees none of the first')
})
