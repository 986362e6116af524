/** What the api refuses, in the words of a form. */

/**
 * The api names fields as programs write them; a form calls them by their labels.
 *
 * @param {string} message  Such as `clear must not be higher than above, 80`.
 * @param {ReadonlyMap<string, string>} labels  By the name of the field.
 */
export function inWordsOf(message, labels) {
  return message.replace(/[a-z_]+/g, (word) => {
    const label = labels.get(word)
    return label === undefined ? word : `“${label}”`
  })
}
