import Type, { type TSchema } from 'typebox'
import { type EditorRules, headerNames, templateLike } from '../schema/editor.js'
import { flag, map, optional, template } from '../schema/values.js'

/** The whole config of an action: its members; other keys are refused. `editor`: rules between them, for the schema for editors. */
export function config<P extends Record<string, TSchema>>(properties: P, editor?: EditorRules) {
  return Type.Object(properties, {
    additionalProperties: false,
    ...(editor === undefined ? {} : { 'x-editor': editor })
  })
}

/** Header name → value with `${…}`; `min` (0) to `max` entries. `refused`: names that the action or the proxy writes itself. */
export function headerMap(options: { description: string; refused?: readonly string[]; max: number; min?: number }) {
  const { description, refused = [], max, min = 0 } = options
  const editor = templateLike('^[\\t\\x20-\\x7e\\x80-\\uffff]*$')
  const value = template({ description: 'Value of the header.', editor })
  return map(value, { description, editor: headerNames(refused), min, max })
}

/** `enforce`: false lets the action find out and publish, and refuse nothing. */
export function enforce() {
  return optional(flag({ description: 'false: find out and publish, but refuse nothing.', default: true }))
}
