import { orderPatterns, readCacheControl } from '../lib/cache-control.js'
import type { FileCoding, FileUpstream } from '../runtime/answering-upstreams.js'
import { upstreamKey } from '../runtime/plan.js'
import { allowedPath, described, flag, map, text, texts } from '../schema/fields.js'
import * as values from '../schema/values.js'
import { defineResource } from './resource.js'
import { namedBackend, planned } from './units.js'

/** Default index file. */
const INDEX = ['index.html']

/** Backend that serves files of a local folder. */
export const fileBackend = defineResource({
  name: 'file_backend',
  description: 'The files of a folder.',
  path: '/backends/file',
  listKey: 'backends',
  idPrefix: 'bkdfl',
  events: 'backend',
  fields: {
    ...described,
    folder: allowedPath(
      'Absolute path of the folder, in one that the operator names (option file_folders).',
      (path, { checkFolder }) => checkFolder?.(path)
    ),
    index: texts({
      description: 'Files that stand for a folder, the first one that exists; without any: index.html.',
      item: 'Name of a file.',
      form: 'file_name',
      max: 10
    }),
    fallback: text({
      description:
        'Path of the file that is sent with status 200 where there is none, such as /index.html of a single-page application. Paths whose last name ends like that of a ' +
        'script or picture get 404.',
      bytes: 1024,
      form: 'file_path'
    }),
    precompressed: texts({
      description: 'Endings of compressed files that lie beside the plain ones, the preferred first: zst, br, gz.',
      item: 'zst, br or gz.',
      form: 'file_coding',
      max: 3,
      distinct: true
    }),
    cache: map<string>({
      description:
        'Cache-Control by patterns of paths: a duration and directives, such as "1y immutable" for *.{js,css}. The most exact pattern that matches counts; `default` is for all others.',
      keys: 'file_pattern',
      values: values.text({ description: 'A duration or directives.', min: 1, max: 200, form: 'cache_control' }),
      max: 50
    }),
    listing: flag({ description: 'Shows the files of a folder that has no index.', default: false }),
    follow_links: flag({ description: 'Follows symbolic links out of the folder.', default: false })
  }
})

/**
 * Units of file backends. Revision 0 is a site file, which is checked when read; a record of the store may come from a process with other
 * allowed folders, so each process checks it again.
 */
export const fileBackends = planned(
  fileBackend,
  (id) => [upstreamKey(id)],
  (one) => {
    const { record, revision } = one
    const { id, body } = record
    const { folder, index, fallback, precompressed, cache, listing, follow_links: links } = body
    const rules = orderPatterns(cache).map(([files, value]) => ({ files, value: readCacheControl(value) ?? '' }))
    const unit: FileUpstream = {
      kind: 'upstream',
      form: 'files',
      folder,
      index: index.length === 0 ? INDEX : index,
      ...(revision === 0 ? {} : { confined: true }),
      ...(fallback === '' ? {} : { fallback }),
      ...(precompressed.length === 0 ? {} : { precompressed: precompressed as readonly FileCoding[] }),
      ...(rules.length === 0 ? {} : { cache: rules }),
      ...(listing ? { listing } : {}),
      ...(links ? { links } : {})
    }
    return [[upstreamKey(id), namedBackend(one, unit)]]
  }
)
