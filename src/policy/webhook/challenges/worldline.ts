import { answer, type Challenge } from '../challenge.js'

const FIELD = 'x-gcs-webhooks-endpoint-verification'
const MAX_LENGTH = 256

/** Worldline's verification of an endpoint: a GET with a field whose value comes back as the body. */
export const worldlineChallenge: Challenge = ({ method, headers }) => {
  const values = headers.values(FIELD)
  const [value] = values
  if (method !== 'GET' || value === undefined || values.length > 1 || value.length > MAX_LENGTH) return undefined
  return answer('text/plain', value)
}
