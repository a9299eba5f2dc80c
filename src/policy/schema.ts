import { PHASES, type Phase } from '../exchange/flow.js'
import type { Action, ReadyAction, UnavailableAction } from './action.js'
import { LEGACY_PHASES } from './legacy.js'

type Json = Readonly<Record<string, unknown>>
type Known = ReadyAction | UnavailableAction

/**
 * JSON Schema (2020-12) of policy documents, for editors. Made from the schemas that check the documents, with one
 * definition for each action; what a schema cannot say (expressions, durations) `sluice check` says.
 */
export function policySchema(actions: readonly Action[]): Json {
  const known = actions.filter((action): action is Known => action.availability !== 'unsupported')
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Sluice traffic policy',
    description: 'Phases with rules; a rule runs its actions when all its expressions are true.',
    type: ['object', 'null'],
    properties: { ...phaseProperties(), ...legacyProperties() },
    additionalProperties: false,
    $defs: Object.fromEntries([
      ...PHASES.map((phase) => [`${phase}.rule`, ruleSchema(phase)]),
      ...PHASES.map((phase) => [`${phase}.action`, actionSchema(phase, known)]),
      ...known.map((action) => [`${action.type}.config`, plain(action.config)])
    ])
  }
}

const PHASE_DESCRIPTIONS: Readonly<Record<Phase, string>> = {
  on_tcp_connect: 'Once for each new connection, before anything is read from it.',
  on_http_request: 'For each request, before it is forwarded.',
  on_http_response: 'For each response, before it goes to the client.',
  on_event_stream_message: 'For each message of a streamed response of server-sent events.'
}

function phaseProperties(): Json {
  return Object.fromEntries(PHASES.map((phase) => [phase, rulesSchema(phase, PHASE_DESCRIPTIONS[phase])]))
}

function legacyProperties(): Json {
  const phases = [...LEGACY_PHASES].map(([key, phase]) => [
    key,
    { ...rulesSchema(phase, `Old name of ${phase}.`), deprecated: true }
  ])
  const enabled = { const: true, deprecated: true, description: 'No part of a document any more; has no effect.' }
  return { ...Object.fromEntries(phases), enabled }
}

function rulesSchema(phase: Phase, description: string): Json {
  return { description, type: ['array', 'null'], items: { $ref: `#/$defs/${phase}.rule` } }
}

function ruleSchema(phase: Phase): Json {
  return {
    type: 'object',
    required: ['actions'],
    properties: {
      name: { description: 'A label for logs and metrics.', type: ['string', 'number', 'boolean', 'null'] },
      expressions: {
        description: 'CEL expressions; the rule runs when all are true, and always when there are none.',
        type: ['array', 'null'],
        items: { type: 'string', minLength: 1 }
      },
      actions: {
        description: 'What the rule does, in order.',
        type: 'array',
        minItems: 1,
        items: { $ref: `#/$defs/${phase}.action` }
      }
    },
    additionalProperties: false
  }
}

/** One action of a phase. `if`/`then` for each type: an editor then completes and blames inside the one that is meant. */
function actionSchema(phase: Phase, known: readonly Known[]): Json {
  const allowed = known.filter((action) => action.phases.includes(phase))
  return {
    type: 'object',
    required: ['type'],
    properties: {
      type: { description: 'Name of the action.', enum: allowed.map(({ type }) => type) },
      config: { description: 'Settings of the action.', type: ['object', 'null'] }
    },
    additionalProperties: false,
    allOf: allowed.map(({ type, configOptional }) => ({
      if: { properties: { type: { const: type } }, required: ['type'] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: {
        properties: { config: configSchema(type, configOptional) },
        ...(configOptional ? {} : { required: ['config'] })
      }
    }))
  }
}

function configSchema(type: string, optional: boolean): Json {
  const ref = { $ref: `#/$defs/${type}.config` }
  return optional ? { anyOf: [ref, { type: 'null' }] } : ref
}

/**
 * Without the marks that only the compiler reads, because strict validators refuse keywords they do not know; and with
 * its leniency: where a text is wanted, a number or a truth value counts as written.
 */
function plain(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(plain)
  if (typeof schema !== 'object' || schema === null) return schema
  const kept = Object.entries(schema).filter(([key]) => !key.startsWith('x-') || isFieldName(key, schema))
  const copy = Object.fromEntries(kept.map(([key, value]) => [key, plain(value)]))
  return copy.type === 'string' ? { ...copy, type: ['string', 'number', 'boolean'] } : copy
}

/** Below `properties` a key that begins with `x-` would be a field, and fields have schemas. */
function isFieldName(key: string, parent: object): boolean {
  const value = (parent as Record<string, unknown>)[key]
  return typeof value === 'object' && value !== null
}
