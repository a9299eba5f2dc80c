import Type, { type TSchema } from 'typebox'
import { config, regex, template } from '../fields.js'

/** `replacements` of the find-replace actions; `more` are fields of each entry that only one action has. */
export function replacements(more: Record<string, TSchema> = {}) {
  const entry = config({
    from: regex({ description: 'RE2 pattern; every match is replaced.' }),
    to: Type.Optional(
      template({ description: 'What takes the place of a match; $1 stands for a group. Nothing when left out.' })
    ),
    ...more
  })
  return Type.Array(entry, { description: 'Applied in order, each to the result of the one before.', minItems: 1 })
}
