import Type from 'typebox'
import { defineField, type Field } from './field.js'
import type { FieldOptions } from './fields.js'
import { link, readId, readIds, refSchema, type Target } from './reference-ids.js'

/** The user or bot who wrote: a Ref whose `uri` is empty, since users have no URL. `each`: of every write, not of the first alone. */
export function writtenBy(description: string, each: boolean): Field<string> {
  return defineField<string>({
    description,
    initial: '',
    settable: 'never',
    response: refSchema,
    read: () => undefined,
    present: (stored) => ({ id: stored, uri: '' }),
    onCreate: (_id, { principal }) => ({ stored: principal }),
    ...(each ? { onUpdate: ({ principal }) => ({ stored: principal }) } : {})
  })
}

/** As `writtenBy`, shown as the id alone. */
export function writtenById(description: string, each: boolean): Field<string> {
  return { ...writtenBy(description, each), response: Type.String({ description }), present: (stored) => stored }
}

const user: Target = { name: 'user', path: '', idPrefix: 'usr' }

/** Ids of users and bots in order, among them once the word that stands for all members; `[]` when unset. Ids stay when a bot is deleted. */
export function users(bot: Target, all: string, options: FieldOptions & { max: number }): Field<readonly string[]> {
  const { description, max } = options
  const targets = [bot, user]
  const ids = Type.Array(Type.String(), { description })
  return defineField<readonly string[]>({
    description,
    initial: [],
    onNull: 'clears',
    request: Type.Array(Type.String(), { description, maxItems: max }),
    response: ids,
    read(value, at, _path, reading) {
      const place = Array.isArray(value) && value.length <= max ? value.indexOf(all) : -1
      if (place === -1) return readIds(targets, { min: 0, max }, value, at, reading)
      const read = readIds(targets, { min: 0, max }, (value as readonly unknown[]).toSpliced(place, 1), at, reading)
      return read === undefined ? undefined : read.toSpliced(place, 0, all)
    },
    present: (stored) => stored,
    links: (stored, path) => stored.flatMap((id, position) => link(targets, id, path, position, 'keep'))
  })
}

/** A user or bot who owns the record: who asks, unless an administrator names another. Goes with the bot. */
export function owner(bot: Target, description: string): Field<string> {
  const targets = [bot, user]
  return defineField<string>({
    description,
    initial: '',
    settable: 'create',
    adminOnly: true,
    request: Type.String({ description }),
    response: Type.String({ description }),
    read: (value, at, _path, reading) => readId(targets, value, at, reading),
    present: (stored) => stored,
    links: (stored, path) => link([bot], stored, path, 0, 'cascade'),
    onCreate: (_id, { principal }) => ({ stored: principal })
  })
}
