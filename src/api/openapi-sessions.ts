import { SESSION_SCHEMA } from '../control/sessions.js'
import { object, orNull, ref, text, time, titledObject } from '../schema/answer.js'
import { operation, type Paths, plain } from './openapi-parts.js'
import { SESSION_PATH } from './session-routes.js'

const TAG = 'Session'

const SESSION = titledObject('Session', {
  principal: object({ id: text, role: { ...text, enum: ['administrator', 'member'] }, subject: text }),
  rights: {
    type: 'object',
    description:
      'What the caller may do: each right of the account as true or false, and under resources, by their names, read, create, update, delete and command as any, own or none.'
  },
  expires_at: {
    ...orNull(time),
    description: 'When the session ends without another call; null for a call with an API key.'
  }
})

/** Adds signing in and out; returns its tag. */
export function describeSessions(paths: Paths, schemas: Record<string, object>): object {
  Object.assign(schemas, { Session: SESSION, SessionRequest: SESSION_SCHEMA })
  const shown = (description: string) => plain(description, ref('Session'))
  paths[SESSION_PATH] = {
    post: operation(
      'session_create',
      TAG,
      'Signs in with an API key, for pages in a browser: the answer sets a cookie that ends after api.session_idle without a call, and that counts for calls of pages of this origin alone.',
      { body: ref('SessionRequest'), responses: { 201: shown('Signed in; the cookie is in set-cookie.') } }
    ),
    get: operation('session_get', TAG, 'Who the caller is and what it may do.', {
      responses: { 200: shown('The caller.') }
    }),
    delete: operation('session_delete', TAG, 'Signs out: the cookie is taken back.', {
      responses: { 204: { description: 'Signed out.' } }
    })
  }
  return { name: TAG, description: 'Who calls.' }
}
