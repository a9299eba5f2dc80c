import { decodeUrl } from '../decoders.js'
import { validateUrlEncoding } from '../validators.js'
import { type BodyOptions, type BodyResult, collectValues } from './values.js'

/** Values of a form, and whether its percent encoding is invalid somewhere (ModSecurity's URLENCODED_ERROR). */
export interface UrlencodedResult extends BodyResult {
  readonly invalidEncoding: boolean
}

/** Reads `application/x-www-form-urlencoded`: pairs between `&`; names and values are decoded, invalid sequences stay as they are. */
export function readUrlencoded(bytes: Buffer, options: BodyOptions = {}): UrlencodedResult {
  const text = bytes.toString('latin1')
  const result = collectValues(options, (values) => {
    let from = 0
    while (from < text.length) {
      const ampersand = text.indexOf('&', from)
      const end = ampersand === -1 ? text.length : ampersand
      const pair = text.slice(from, end)
      const equals = pair.indexOf('=')
      const name = equals === -1 ? pair : pair.slice(0, equals)
      if (pair !== '') values.add('ARGS_POST', decodeUrl(name), equals === -1 ? '' : decodeUrl(pair.slice(equals + 1)))
      from = end + 1
    }
  })
  return { ...result, invalidEncoding: validateUrlEncoding(text) !== undefined }
}
