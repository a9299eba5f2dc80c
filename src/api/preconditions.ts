import { ApiError } from './errors.js'

const TAG = /^(?:W\/)?"[\x21\x23-\x7e]*"$/
const STRONG = /^"(\d{1,15})"$/
const ANY = /^(?:W\/)?"(\d{1,15})"$/

/** ETag of a record at a revision (RFC 9110 8.8.3). */
export function entityTag(revision: number): string {
  return `"${revision}"`
}

/**
 * Revisions that `If-Match` (RFC 9110 13.1.1) accepts; undefined: any. Tags compare strongly, so a weak one names no
 * revision. Throws an ApiError `PRECONDITION_INVALID`.
 */
export function readIfMatch(header: string | undefined): readonly number[] | undefined {
  return header === undefined ? undefined : revisionsOf(header, STRONG, 'If-Match')
}

/**
 * Whether the client has a revision already, by `If-None-Match` (RFC 9110 13.1.2), which compares weakly.
 * Throws an ApiError `PRECONDITION_INVALID`.
 */
export function readIfNoneMatch(header: string | undefined): (revision: number) => boolean {
  if (header === undefined) return () => false
  const revisions = revisionsOf(header, ANY, 'If-None-Match')
  return (revision) => revisions?.includes(revision) ?? true
}

/** Undefined for `*`: all of them. */
function revisionsOf(header: string, form: RegExp, name: string): readonly number[] | undefined {
  if (header.trim() === '*') return undefined
  const tags = header
    .split(',')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '')
  if (tags.length === 0 || !tags.every((tag) => TAG.test(tag))) {
    throw new ApiError(400, 'PRECONDITION_INVALID', `${name} must be an ETag in double quotes, several of them, or *.`)
  }
  return tags.flatMap((tag) => {
    const revision = form.exec(tag)?.[1]
    return revision === undefined ? [] : [Number(revision)]
  })
}
