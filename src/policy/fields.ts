import Type, { type TSchema } from 'typebox'
import { type EditorRules, headerNames, templateLike } from '../schema/editor.js'
import { flag, map, optional, template } from '../schema/values.js'

/** The config of an action with these members; other keys are rejected. `editor`: rules between members for the editor schema. */
export function config<P extends Record<string, TSchema>>(properties: P, editor?: EditorRules) {
  return Type.Object(properties, {
    additionalProperties: false,
    ...(editor === undefined ? {} : { 'x-editor': editor })
  })
}

/**
 * Header names with values that may contain `${…}`; `min` (default 0) to `max` entries. `refused`: names that the action or the proxy
 * writes itself.
 */
export function headerMap(options: { description: string; refused?: readonly string[]; max: number; min?: number }) {
  const { description, refused = [], max, min = 0 } = options
  const editor = templateLike('^[\\t\\x20-\\x7e\\x80-\\uffff]*$')
  const value = template({ description: 'Value of the header.', editor })
  return map(value, { description, editor: headerNames(refused), min, max })
}

/** `enforce`: with false, the action determines and publishes its result, but rejects nothing. */
export function enforce() {
  return optional(flag({ description: 'false: find out and publish, but refuse nothing.', default: true }))
}
