import { EvaluationError, type Expressions } from '../expression/expression.js'
import { defineErrors } from '../lib/errors.js'
import { defineAction, type Scope } from '../policy/action.js'
import { config } from '../policy/fields.js'
import { type NodePath, policyErrors } from '../policy/problems.js'
import { type CompiledValue, compileValue } from '../policy/values.js'
import { textLike } from '../schema/editor.js'
import { any, either, list, map, optional } from '../schema/values.js'
import { defineFeature } from './contract.js'

/** Problem codes of the actions set-vars and log. */
const variablesProblems = defineErrors({
  SECRET_LOGGED: { text: 'An expression of a log action reads a secret.', help: 'Leave the secret out of the log.' }
})

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/

const entry = map(any({ templates: true, description: 'Any value; strings may hold ${…} at any depth.' }), {
  description: 'One name with its value.',
  min: 1,
  max: 1,
  editor: { propertyNames: textLike(IDENTIFIER.source) }
})

function assigned(vars: unknown): (readonly [string, unknown])[] {
  return Array.isArray(vars) ? vars.flatMap((one) => Object.entries(one as object)) : []
}

/** Sets `vars.<name>` for the rest of the phase. Later entries see earlier ones; the last value of a name applies. */
const setVars = defineAction({
  type: 'set-vars',
  summary: 'Sets variables for later expressions: vars.name.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: set-vars
        config:
          vars:
            - tier: "\${hasReqHeader('x-key') ? 'known' : 'unknown'}"
      - type: add-headers
        config:
          headers:
            x-tier: \${vars.tier}
`,
    request: 'GET /',
    status: 200
  },
  phases: ['on_tcp_connect', 'on_http_request', 'on_http_response'],
  config: config({
    vars: either(
      [
        list(entry, { description: 'Variables in the order of their evaluation, one to an entry.', min: 1 }),
        // Listed so that `compile` can explain the correct form; maps are unordered.
        map(any({ description: 'Any value.' }), { description: 'Not accepted: write a list.', deprecated: true })
      ],
      { description: 'Variables to set.' }
    )
  }),
  configOptional: false,
  terminates: 'never',
  leaves: ({ vars }) => assigned(vars).map(([name]) => `vars.${name}`),
  assigns: ({ vars }) => assigned(vars),
  compile({ vars }, scope) {
    if (!Array.isArray(vars)) {
      const [name = 'name'] = Object.keys(vars)
      scope.problem(
        ['vars'],
        policyErrors.CONFIG_INVALID,
        `vars is a list of maps with one entry each, not one map; write "- ${name}: …" for each variable`
      )
      return () => undefined
    }
    const compiled = vars.map((map, i) => compileEntry(map, i, scope))
    return (flow) => {
      flow.vars ??= new Map()
      for (const [name, value] of compiled) flow.vars.set(name, value.evaluate(flow))
      return undefined
    }
  }
})

function compileEntry(
  map: Readonly<Record<string, unknown>>,
  i: number,
  scope: Scope
): readonly [string, CompiledValue] {
  const [name, value] = Object.entries(map)[0] as [string, unknown]
  if (!IDENTIFIER.test(name)) {
    scope.problem(
      ['vars', i, name],
      policyErrors.CONFIG_INVALID,
      `"${name}" is not a variable name: letters, digits and _ are allowed, and no digit first`
    )
  }
  return [name, compileValue(value, ['vars', i, name], scope)]
}

/** Records data for the exchange's access log line. */
const log = defineAction({
  type: 'log',
  summary: 'Records values in the log and in traffic events.',
  example: {
    policy: `on_http_request:
  - expressions: ["req.url.path.startsWith('/login')"]
    actions:
      - type: log
        config:
          metadata:
            attempt: \${req.method} \${req.url.path}
`,
    request: 'GET /login',
    status: 200
  },
  phases: ['on_tcp_connect', 'on_http_request', 'on_http_response'],
  config: config({
    metadata: optional(
      map(any({ templates: true, description: 'Any value; strings may hold ${…} at any depth.' }), {
        description: 'What to record.'
      })
    )
  }),
  configOptional: true,
  terminates: 'never',
  results: { name: 'log', fields: { metadata: ['map<string, dyn>', 'What was written to the log.'] } },
  compile({ metadata = {} }, scope) {
    warnOfSecrets(metadata, ['metadata'], scope)
    const value = compileValue(metadata, ['metadata'], scope)
    const { expressions } = scope.services
    return (flow) => {
      const recorded = value.evaluate(flow)
      flow.record(() => dataOfRecord(recorded, expressions))
      flow.publish('log', { metadata: recorded })
      return undefined
    }
  }
})

/** Returns the recorded value as plain data, or why it is too large for a line. */
function dataOfRecord(recorded: unknown, expressions: Expressions): Readonly<Record<string, unknown>> {
  try {
    return expressions.dataOf(recorded) as Readonly<Record<string, unknown>>
  } catch (error) {
    if (error instanceof EvaluationError) return { error: error.message }
    throw error
  }
}

/** Warns of secrets in logged values, which are stored and readable by others. */
function warnOfSecrets(value: unknown, at: NodePath, scope: Scope): void {
  if (typeof value === 'string') {
    const open = value.indexOf('${')
    if (open !== -1 && /\bsecrets\.get\b/.test(value.slice(open))) {
      scope.warn(
        at,
        variablesProblems.SECRET_LOGGED,
        'this expression reads a secret; its value would stand in the log'
      )
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      warnOfSecrets(item, [...at, Array.isArray(value) ? Number(key) : key], scope)
    }
  }
}

export const variables = defineFeature({
  name: 'variables',
  summary: 'Sets variables for later rules and writes entries into the log.',
  actions: [setVars, log],
  problems: [variablesProblems]
})
