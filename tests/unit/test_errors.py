from konverge.errors import stack_of


def test_a_stack_holds_places_and_never_values_of_variables() -> None:
    password = "hunter2"
    try:
        _ = int("x") + len(password)
    except ValueError as error:
        told, handled = stack_of(error), stack_of()
    assert told == handled
    assert "ValueError: invalid literal" in told
    assert "test_errors.py" in told
    assert "hunter2" not in told


def test_without_an_error_the_stack_is_empty() -> None:
    assert stack_of() == ""
