import { respond, type Verdict } from '../../flow/verdict.js'
import { isEmptyList, objectMember, readObject, textMember } from './json.js'
import { macKey, macOf, type WebhookRequest } from './scheme.js'

/** Responds to a sender's test of a URL. Undefined: the request is not a test. */
export type Challenge = (request: WebhookRequest, secret: string) => Verdict | undefined | Promise<Verdict | undefined>

/** Returns a response that no browser treats as a page. */
function answer(type: 'text/plain' | 'application/json', text: string): Verdict {
  const headers = ['content-type', `${type}; charset=utf-8`, 'x-content-type-options', 'nosniff']
  return respond(200, headers, Buffer.from(text, 'utf8'))
}

/** Returns the single value of a query parameter. */
function parameter({ target }: WebhookRequest, name: string): string | undefined {
  const mark = target.indexOf('?')
  if (mark === -1) return undefined
  const values = new URLSearchParams(target.slice(mark + 1)).getAll(name)
  return values.length === 1 ? values[0] : undefined
}

const MAX_LENGTH = 256

/** Dropbox's verification request: `GET ?challenge=…`, whose value is the response body. */
export const dropboxChallenge: Challenge = (request) => {
  const value = request.method === 'GET' ? parameter(request, 'challenge') : undefined
  return value === undefined || value === '' || value.length > MAX_LENGTH ? undefined : answer('text/plain', value)
}

const FORM = { algorithm: 'sha256', encoding: 'base64' } as const
/**
 * Token that is answered with its code under the signing key. Tokens that could be a delivery are excluded, or any client could have one
 * signed.
 */
const TOKEN = /^[A-Za-z0-9+/=_.-]{1,256}$/

/** Twitter's challenge-response check: `GET ?crc_token=…`. */
export const twitterChallenge: Challenge = async (request, secret) => {
  if (request.method !== 'GET') return undefined
  // An unencoded plus sign has become a blank.
  const token = parameter(request, 'crc_token')?.replaceAll(' ', '+')
  if (token === undefined || !TOKEN.test(token)) return undefined
  const code = await macOf(FORM, macKey(secret), token)
  return answer('application/json', JSON.stringify({ response_token: `sha256=${code}` }))
}

/** Challenge; Meta sends digits. */
const HUB_CHALLENGE = /^[A-Za-z0-9_.-]{1,256}$/

/**
 * Meta's verification request: `GET ?hub.mode=subscribe&hub.challenge=…`, whose challenge is the response body. Its token identifies the
 * sender's own app and grants nothing: deliveries are signed.
 */
export const hubChallenge: Challenge = (request) => {
  if (request.method !== 'GET' || parameter(request, 'hub.mode') !== 'subscribe') return undefined
  const value = parameter(request, 'hub.challenge')
  return value !== undefined && HUB_CHALLENGE.test(value) ? answer('text/plain', value) : undefined
}

/** Mandrill's test of the URL. */
export const headChallenge: Challenge = ({ method }) => (method === 'HEAD' ? respond(200) : undefined)

const SLACK_TYPE = 'url_verification'

/** Slack's verification of a URL: a signed event with a `challenge`, which is the response body. */
export const slackChallenge: Challenge = async ({ body }) => {
  // Other events are not parsed.
  if (!Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes(SLACK_TYPE)) return undefined
  const event = await readObject(body, ['type', 'challenge'])
  if (event === undefined || event.get('type') !== SLACK_TYPE) return undefined
  const challenge = textMember(event, 'challenge')
  return challenge === undefined || challenge.length > MAX_LENGTH ? undefined : answer('text/plain', challenge)
}

const FIELD = 'x-gcs-webhooks-endpoint-verification'

/** Worldline's verification of an endpoint: a GET with a field whose value is the response body. */
export const worldlineChallenge: Challenge = ({ method, headers }) => {
  const values = headers.values(FIELD)
  const [value] = values
  if (method !== 'GET' || value === undefined || values.length > 1 || value.length > MAX_LENGTH) return undefined
  return answer('text/plain', value)
}

/** Maximum body length; longer ones contain events. */
const XERO_MAX_LENGTH = 512

/** Xero's intent to receive: a signed delivery without events, whose response is an empty 200. */
export const xeroIntent: Challenge = async ({ body }) => {
  if (body.length > XERO_MAX_LENGTH) return undefined
  const object = await readObject(body, ['events', 'entropy'])
  if (object === undefined || typeof object.get('entropy') !== 'string') return undefined
  return isEmptyList(object, 'events') ? respond(200) : undefined
}

const EVENT = 'endpoint.url_validation'
const ZOOM_FORM = { algorithm: 'sha256', encoding: 'hex' } as const

/** Zoom's validation of an endpoint: a signed event with a `plainToken`, which is returned with its code. */
export const zoomChallenge: Challenge = async ({ body }, secret) => {
  // Other events are not parsed.
  if (!Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes(EVENT)) return undefined
  const event = await readObject(body, ['event', 'payload'])
  if (event === undefined || event.get('event') !== EVENT) return undefined
  const payload = await objectMember(event, 'payload', ['plainToken'])
  const plainToken = payload === undefined ? undefined : textMember(payload, 'plainToken')
  if (plainToken === undefined) return undefined
  const encryptedToken = await macOf(ZOOM_FORM, macKey(secret), plainToken)
  return answer('application/json', JSON.stringify({ plainToken, encryptedToken }))
}
