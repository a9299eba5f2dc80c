import { PHASES, type Phase } from '../flow/flow.js'
import { formatDuration } from '../lib/units.js'
import { DURATION, textLike } from '../schema/editor.js'
import { type Dialect, type JsonSchema as Json, publish } from '../schema/publish.js'
import { isExact, type Schema } from '../schema/schema.js'
import type { Action, ReadyAction } from './action.js'
import { LEGACY_PHASES } from './document.js'

/**
 * JSON Schema (2020-12) of policy documents, for editors. Derived from the schemas that check the documents, with one definition per
 * action; constraints beyond JSON Schema (expressions, bounds of durations) are checked by `sluice check`.
 */
export function policySchema(actions: readonly Action[]): Json {
  const known = actions.filter((action): action is ReadyAction => action.availability !== 'unsupported')
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Sluice traffic policy',
    description: 'Phases with rules; a rule runs its actions when all its expressions are true.',
    type: 'object',
    properties: { ...phaseProperties(), ...legacyProperties(), strict_expressions: STRICT_EXPRESSIONS },
    // A policy without rules has an empty list.
    anyOf: [...PHASES, ...LEGACY_PHASES.keys()].map((phase) => ({
      required: [phase],
      properties: { [phase]: { type: 'array' } }
    })),
    additionalProperties: false,
    $defs: Object.fromEntries([
      ...PHASES.map((phase) => [`${phase}.rule`, ruleSchema(phase)]),
      ...PHASES.map((phase) => [`${phase}.action`, actionSchema(phase, known)]),
      ...known.map((action) => [`${action.type}.config`, publish(action.config as Schema, EDITOR)])
    ])
  }
}

const STRICT_EXPRESSIONS: Json = {
  description:
    'An extension of Sluice. true: an expression of a rule that asks for something absent fails the request with 500 POLICY_VALUE_ABSENT; without it the rule does not match.',
  type: ['boolean', 'null'],
  default: false
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
        items: textLike('\\S')
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

/** One action of a phase. `if`/`then` for each type let an editor complete and report inside the matching action. */
function actionSchema(phase: Phase, known: readonly ReadyAction[]): Json {
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

/** Types of a text in a document: YAML gives types to unquoted text. */
const WRITTEN = ['string', 'number', 'boolean']

/**
 * Drops annotations of the compiler, adds the editor rules, and allows what the reader tolerates: numbers and booleans for text, and fields
 * without a value.
 */
const EDITOR: Dialect = {
  keeps: (keyword) => !keyword.startsWith('x-'),
  value(published, declared) {
    const copy = { ...namesOfMaps(published), ...asWritten(declared) }
    return { ...copy, ...declared['x-editor'] }
  },
  member: (published, _declared, required) => (required ? published : orAbsent(published))
}

/** Allows any key in a map. */
function namesOfMaps(published: Json): Json {
  const entries = Object.entries(published).map(([keyword, value]) =>
    keyword === 'additionalProperties' && typeof value === 'object'
      ? ['patternProperties', { '^.*$': value }]
      : [keyword, value]
  )
  return Object.fromEntries(entries)
}

/** Returns keywords for the other forms that the reader accepts. */
function asWritten(declared: Schema): Json {
  if (declared['x-kind'] === 'duration') return { ...DURATION, description: withBounds(declared) }
  if (declared['x-kind'] === 'expression') return textLike('\\S')
  if (declared.enum !== undefined) return { enum: written(declared.enum) }
  return declared.type === 'string' && !isExact(declared) ? { type: WRITTEN } : {}
}

/** Describes the bounds, because no keyword bounds a text that is read as a number. */
function withBounds({ description = '', 'x-min': min = 0, 'x-max': max = 0, 'x-multiple': multiple }: Schema): string {
  const steps = multiple === undefined ? '' : `, a multiple of ${formatDuration(multiple)}`
  return `${description} (${formatDuration(min)} to ${formatDuration(max)}${steps})`
}

/** Returns the words in all forms, since YAML reads some as numbers. */
function written(words: readonly unknown[]): readonly unknown[] {
  return words.flatMap((word) =>
    typeof word === 'string' && /^\d+(?:\.\d+)?$/.test(word) ? [word, Number(word)] : [word]
  )
}

function orAbsent(field: Json): Json {
  const { type, enum: words } = field
  if (Array.isArray(words)) return { ...field, enum: [...words, null] }
  if (type === undefined)
    return 'anyOf' in field ? { ...field, anyOf: [...(field.anyOf as []), { type: 'null' }] } : field
  const types = [type].flat()
  return 'anyOf' in field ? { anyOf: [field, { type: 'null' }] } : { ...field, type: [...types, 'null'] }
}
