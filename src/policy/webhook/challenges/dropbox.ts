import { answer, type Challenge, parameter } from '../challenge.js'

const MAX_LENGTH = 256

/** Dropbox's verification request: `GET ?challenge=…`, whose value comes back as the body. */
export const dropboxChallenge: Challenge = (request) => {
  const value = request.method === 'GET' ? parameter(request, 'challenge') : undefined
  return value === undefined || value === '' || value.length > MAX_LENGTH ? undefined : answer('text/plain', value)
}
