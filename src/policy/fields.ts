import Type, { type TSchema } from 'typebox'
import { formatDuration } from '../lib/units.js'
import { type EditorRules, headerNames, templateLike } from './editor.js'

/**
 * The field vocabulary of action configs: TypeBox schemas whose annotation `x-sluice` says how a string is compiled.
 *
 * `template`: `${…}` allowed. `expression`: CEL. `regex`: RE2, `${…}` allowed. `duration`: see `lib/duration`, with
 * `x-min`, `x-max`, `x-multiple` in milliseconds. An annotation counts at any depth, also below lists and maps.
 */
export type FieldKind = 'template' | 'expression' | 'regex' | 'duration'

/** Strict object: unknown keys are refused. `editor`: rules between its fields, for the schema for editors. */
export function config<P extends Record<string, TSchema>>(properties: P, editor?: EditorRules) {
  return Type.Object(properties, { additionalProperties: false, ...editorRules(editor) })
}

export function template(options: {
  description: string
  minLength?: number
  maxLength?: number
  editor?: EditorRules
}) {
  const { editor, ...rest } = options
  return Type.String({ ...rest, 'x-sluice': 'template', ...editorRules(editor) })
}

function editorRules(editor: EditorRules | undefined): { 'x-editor'?: EditorRules } {
  return editor === undefined ? {} : { 'x-editor': editor }
}

export function expression(options: { description: string }) {
  return Type.String({ ...options, minLength: 1, 'x-sluice': 'expression' })
}

export function regex(options: { description: string }) {
  return Type.String({ ...options, 'x-sluice': 'regex' })
}

/** Bounds in milliseconds. */
export function duration(options: {
  description: string
  min: number
  max: number
  multiple?: number
  default?: string
}) {
  const { min, max, multiple, ...rest } = options
  const allowed = `${formatDuration(min)} to ${formatDuration(max)}${multiple === undefined ? '' : `, a multiple of ${formatDuration(multiple)}`}`
  return Type.String({
    ...rest,
    description: `${options.description} (${allowed})`,
    'x-sluice': 'duration',
    'x-min': min,
    'x-max': max,
    ...(multiple === undefined ? {} : { 'x-multiple': multiple })
  })
}

/** One of a few words; a single `enum` gives one error instead of one for each word. */
export function choice<const W extends readonly string[]>(
  words: W,
  options: { description: string; default?: W[number] }
) {
  return Type.Enum<W[number][]>([...words], options)
}

/** Header name → value with `${…}`; 1 to `max` entries. `refused`: names that the action or the proxy writes itself. */
export function headerMap(options: { description: string; refused?: readonly string[]; max?: number; min?: number }) {
  const editor = templateLike('^[\\t\\x20-\\x7e\\x80-\\uffff]*$')
  return Type.Record(Type.String(), template({ description: 'Value of the header.', editor }), {
    description: options.description,
    'x-editor': headerNames(options.refused ?? []),
    minProperties: options.min ?? 0,
    maxProperties: options.max ?? 10
  })
}

/** A literal string: no `${…}` in it is read. `exact`: a number or truth value is refused instead of taken as written. */
export function text(options: {
  description: string
  minLength?: number
  maxLength?: number
  default?: string
  exact?: boolean
  editor?: EditorRules
}) {
  const { exact, editor, ...rest } = options
  return Type.String({ ...rest, ...(exact === true ? { 'x-exact': true } : {}), ...editorRules(editor) })
}

export function flag(options: { description: string; default: boolean }) {
  return Type.Boolean(options)
}

/** A whole number; both bounds belong to the range. */
export function whole(options: { description: string; min: number; max: number; default?: number }) {
  const { min, max, ...rest } = options
  return Type.Integer({ ...rest, minimum: min, maximum: max })
}

/** Any YAML value; every string in it, at any depth, may hold `${…}`. */
export function anyValue(options: { description: string }) {
  return Type.Unknown({ ...options, 'x-sluice': 'template' })
}

/** `enforce`: false lets the action find out and publish, and refuse nothing. */
export function enforce() {
  return Type.Optional(flag({ description: 'false: find out and publish, but refuse nothing.', default: true }))
}
