import { mapOf, object, orNull, text, time, titledObject, type ValueOf, words } from '../schema/answer.js'

/** The caller of a request, with its rights. */
export const SESSION = titledObject('Session', {
  principal: object({ id: text, role: words(['administrator', 'member']), subject: text }),
  rights: mapOf(
    undefined,
    'What the caller may do: each right of the account as true or false, and under resources, by their names, read, create, update, delete and command as any, own or none.'
  ),
  expires_at: {
    ...orNull(time),
    description: 'When the session ends without another call; null for a call with an API key.'
  }
})

export type SessionView = ValueOf<typeof SESSION>
